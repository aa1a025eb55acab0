"""What the assembler does not understand it leaves alone, and says why."""

from __future__ import annotations

import pytest

from kiln import _runtime
from tests.unit._runtime.assembler.running import EPILOGUE, LEVELS_HERE, assembled, refusal

BODY = """define i64 @run(i64 %x, ptr %p) #0 {{
entry:
  {}
  ret i64 %x
}}
"""


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("%y = add nsw i64 %x, 1", "type nsw"),
        ("%y = fadd contract float 0x0000000000000000, 0x0000000000000000", "type contract"),
        ("%y = frem float 0x0000000000000000, 0x0000000000000000", "instruction frem"),
        ("%y = zext i64 %x to i128", "type i128"),
        ("%y = add <3 x i64> zeroinitializer, zeroinitializer", "vector of this kind"),
        ("%y = load atomic i64, ptr %p monotonic, align 8", "type atomic"),
        ("%y = load i64, ptr %p, align 8, !tbaa !3", "something more"),
        ("%y = call i64 @llvm.bswap.i64(i64 %x)", "intrinsic llvm.bswap.i64"),
        ("%y = add i64 %z, 1", "not defined before: z"),
        ("%x = add i64 %x, 1", "two values of one name"),
        ("%y = add i32 %x, 1", "another type"),
        ("%y = shl i64 %x, 64", "shift by too much"),
        ("%y = fadd float 0x3FF0000000000001, 0x3FF0000000000001", "not a 32-bit float"),
        ("br label %nowhere", "outside of a block"),
        ("%y = extractelement <2 x i64> zeroinitializer, i64 1", "expected"),
        ("fence seq_cst", "instruction fence"),
    ],
)
def test_lines(line: str, reason: str) -> None:
    assert reason in refusal(BODY.format(line))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("define i64 @run(i64 %x) {\n  ret i64 %x\n}\n", "expected"),
        ("define i64 @run(i64 %x) #0 {\nentry:\n  br label %nowhere\n}\n", "missing"),
        ("define i64 @run(i64 %x) #0 {\nentry:\n", "missing"),
        ("define i64 @run(i64 %x) #0 {\nentry:\n}\n", "without an end"),
        ("target triple = \"x\"\n", "unknown kind"),
        ("@x = global i64 0, align 8\n", "expected"),
        ("@x = internal constant [2 x i8] c\"\\00\", align 8\n", "another size"),
        ("define i64 @run() #0 {\n  ret i64 1\n}\ndefine i64 @run() #0 {\n  ret i64 2\n}\n", "two"),
        ("define void @run(float %a) #0 {\nentry:\n  call void @f(float %a)\n  ret void\n}\n",
         "vectors elsewhere"),
        ("", None),
    ],
)  # fmt: skip
def test_modules(text: str, reason: str | None) -> None:
    if reason is None:
        assert assembled(text)
    else:
        assert reason in refusal(text)


def test_a_value_of_a_turn_that_is_read_after_the_loop() -> None:
    """It would have been overwritten by that of the next turn."""
    text = """define i64 @run(i64 %x) #0 {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %x
  br i1 %more, label %loop, label %done
done:
  ret i64 %i
}
"""
    assert "after the loop" in refusal(text)


@pytest.mark.parametrize("level", LEVELS_HERE)
def test_text_that_is_cut_off_anywhere(level: str) -> None:
    text = BODY.format(
        "%v = load <8 x float>, ptr %p, align 4\n"
        "  %w = fadd <8 x float> %v, splat (float 0x3FF0000000000000)\n"
        "  call void @llvm.masked.store.v8f32.p0(<8 x float> %w, ptr align 4 %p, <8 x i1> "
        "<i1 1, i1 1, i1 1, i1 1, i1 1, i1 0, i1 0, i1 0>)"
    )
    for end in range(len(text)):
        found = _runtime.assemble_text(text[:end], level)
        assert isinstance(found, (str, bytes))
        assert isinstance(found, str) or end == 0 or text[:end].endswith("}\n")
    for at in range(0, len(text), 3):
        _runtime.assemble_text(text[:at] + "%" + text[at + 1 :] + EPILOGUE, level)


def test_what_is_no_text() -> None:
    with pytest.raises(TypeError):
        _runtime.assemble_text(b"", "x86-64-v4")
    with pytest.raises(TypeError):
        _runtime.assemble_text("")


def test_other_levels() -> None:
    assert refusal("", "x86-64-v2") == "the level x86-64-v2"
