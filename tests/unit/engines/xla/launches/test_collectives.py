"""Collective operations, read from the text of compiled programs."""

from __future__ import annotations

import pytest

from kiln.engines.xla.launches import collectives
from kiln.engines.xla.launches.collectives import Collective, note_collectives

TEXT = """\
HloModule jit_step, is_scheduled=true, entry_computation_layout={()->f32[]}

ENTRY %main (p: f32[8]) -> f32[8] {
  %p = f32[8]{0} parameter(0)
  %all-reduce.1 = f32[8,2]{1,0} all-reduce(%p), channel_id=1, replica_groups={{0,1,2,3}}
  %all-reduce.2 = (bf16[8]{0}, f64[]) all-reduce(%p, %q), replica_groups=[2,4]<=[8]
  %all-gather.3 = s8[8,4]{1,0} all-gather(%p), replica_groups={{0,1},{2,3}}, dimensions={0}
  %reduce-scatter.4 = c64[2]{0} reduce-scatter(%p), replica_groups=[1,4]<=[4]
  %start.5 = pred[16]{0} collective-permute-start(%p), source_target_pairs={{0,1},{1,0}}
  %all-reduce.7 = s32[]{:T(128)} all-reduce(%p), replica_groups=mesh['a'=4,'b'=2] {'a'}
  %all-reduce.8 = s32[] all-reduce(%p), replica_groups=mesh['a'=4,'b'=2] {'a':(1)2,'b'}
  ROOT %all-to-all.6 = (f32[2]{0}, f32[2]{0}) all-to-all(%p, %q), replica_groups={{0,1}}
}
"""


def test_kinds_bytes_and_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    found: dict[tuple[str, str], Collective] = {}
    monkeypatch.setattr(collectives, "known", found)
    note_collectives(TEXT)
    assert {name: operation for (_, name), operation in found.items()} == {
        "all-reduce.1": Collective("all-reduce", 64, 4),
        "all-reduce.2": Collective("all-reduce", 24, 4),
        "all-gather.3": Collective("all-gather", 16, 2),
        "reduce-scatter.4": Collective("reduce-scatter", 64, 4),
        "start.5": Collective("collective-permute", 16, 2),
        "all-reduce.7": Collective("all-reduce", 4, 4),
        "all-reduce.8": Collective("all-reduce", 4, 4),
        "all-to-all.6": Collective("all-to-all", 16, 2),
    }
    assert {program for program, _ in found} == {"jit_step"}
