// Register allocation: a linear scan over live ranges.
//
// A virtual register without a physical one is spilled for its whole live range: what few programs
// need must not make all others slower to compile.
#include <algorithm>

#include "assembler/emission/machine.h"
#include "assembler/emission/operands.h"

namespace kiln::assembler {
namespace {

// rax, r10, r11 and the last four vectors are reserved for reloads and spills, and so are k6 and
// k7; no instruction can be masked by k0.
constexpr int8_t kGeneral[] = {1, 2, 6, 7, 8, 9, 3, 12, 13, 14, 15};
constexpr int8_t kKept[] = {3, 12, 13, 14, 15};

struct Loop {
  int32_t first, last;  // operations
};

struct Lifetime {
  int32_t start = -1, end = -1;
};

class Allocator {
 public:
  explicit Allocator(Body& body) : body_(body), lives_(body.classes.size()) {}

  Allocation run() {
    remove_unused();
    put_in_order();
    find_lifetimes();
    assign();
    made_.frame = (made_.frame + 63) / 64 * 64;
    return std::move(made_);
  }

 private:
  void remove_unused() {
    std::vector<uint32_t> uses(body_.classes.size());
    for (const Op& op : body_.ops) {
      for_each_use(body_, op, [&](Register r) { ++uses[static_cast<size_t>(r)]; });
    }
    kept_.assign(body_.ops.size(), true);
    // Copies into the phis of a block come last in their own block, and are kept.
    for (size_t i = body_.ops.size(); i-- > 0;) {
      const Op& op = body_.ops[i];
      if (op.has_effect || op.d == kNone || uses[static_cast<size_t>(op.d)] != 0) continue;
      kept_[i] = false;
      for_each_use(body_, op, [&](Register r) { --uses[static_cast<size_t>(r)]; });
    }
  }

  void put_in_order() {
    made_.order.reserve(body_.ops.size());
    for (uint32_t number : body_.placed) {
      const Block& block = body_.blocks[number];
      made_.starts.push_back(static_cast<uint32_t>(made_.order.size()));
      auto put = [&](uint32_t i) {
        if (kept_[i]) made_.order.push_back(i);
      };
      for (uint32_t i = block.first; i < block.last; ++i) put(i);
      for (uint32_t i : block.copies) put(i);
      for (uint32_t i = block.last; i < block.end; ++i) put(i);
    }
  }

  // A loop is the range from the target of a backward jump to the jump.
  void find_loops() {
    std::vector<int32_t> place(body_.blocks.size(), -1);
    for (size_t i = 0; i < body_.placed.size(); ++i) {
      place[body_.placed[i]] = static_cast<int32_t>(made_.starts[i]);
    }
    for (size_t i = 0; i < made_.order.size(); ++i) {
      const Op& op = body_.ops[made_.order[i]];
      if (op.shape != Shape::kJump && op.shape != Shape::kJumpIf) continue;
      const int32_t to = place[op.number];
      if (to < 0) throw NotUnderstood{"a jump to a block that is missing"};
      if (to <= static_cast<int32_t>(i)) loops_.push_back({to, static_cast<int32_t>(i)});
    }
    // Inner loops first: outer ones may extend the live ranges that inner ones extend.
    std::sort(loops_.begin(), loops_.end(),
              [](const Loop& x, const Loop& y) { return x.last < y.last; });
    for (size_t i = 0; i < loops_.size(); ++i) {
      for (size_t k = i + 1; k < loops_.size(); ++k) {
        if (loops_[k].first > loops_[i].first && loops_[k].first <= loops_[i].last) {
          throw NotUnderstood{"loops that are not nested"};
        }
      }
    }
  }

  void find_lifetimes() {
    find_loops();
    auto touch = [&](Register r, int32_t at) {
      Lifetime& life = lives_[static_cast<size_t>(r)];
      if (life.start < 0 || at < life.start) life.start = at;
      if (at > life.end) life.end = at;
    };
    for (size_t i = 0; i < made_.order.size(); ++i) {
      const Op& op = body_.ops[made_.order[i]];
      const auto at = static_cast<int32_t>(2 * i);
      if (op.shape == Shape::kCall) calls_.push_back(at);
      for_each_use(body_, op, [&](Register r) {
        if (lives_[static_cast<size_t>(r)].start < 0) {
          throw NotUnderstood{"a value that is used before it is computed"};
        }
        touch(r, at);
      });
      for_each_result(body_, op, [&](Register r) { touch(r, op.is_early ? at : at + 1); });
    }
    check_carried();
    for (Lifetime& life : lives_) {
      if (life.start < 0) continue;
      for (const Loop& loop : loops_) {
        if (life.start < 2 * loop.first && life.end >= 2 * loop.first &&
            life.end < 2 * loop.last + 1) {
          life.end = 2 * loop.last + 1;
        }
      }
    }
  }

  // A loop-carried register receives its next value before it is known whether there is a next
  // iteration.
  void check_carried() const {
    for (size_t i = 0; i < body_.placed.size(); ++i) {
      const size_t end = i + 1 < made_.starts.size() ? made_.starts[i + 1] : made_.order.size();
      for (Register r : body_.blocks[body_.placed[i]].carried) {
        if (lives_[static_cast<size_t>(r)].end >= static_cast<int32_t>(2 * end)) {
          throw NotUnderstood{"a value of an iteration that is used after the loop"};
        }
      }
    }
  }

  bool is_across_call(const Lifetime& life) const {
    const auto next = std::upper_bound(calls_.begin(), calls_.end(), life.start);
    return next != calls_.end() && *next < life.end;
  }

  void assign() {
    made_.of.resize(lives_.size());
    std::vector<Register> sorted;
    for (size_t r = 0; r < lives_.size(); ++r) {
      if (lives_[r].start >= 0) sorted.push_back(static_cast<Register>(r));
    }
    std::stable_sort(sorted.begin(), sorted.end(), [&](Register x, Register y) {
      return lives_[static_cast<size_t>(x)].start < lives_[static_cast<size_t>(y)].start;
    });
    for (auto& each : holders_) std::fill(std::begin(each), std::end(each), kNone);
    made_.frame = (body_.frame + 63) / 64 * 64;
    size_t next = 0;
    for (Register r : sorted) {
      while (next < calls_.size() && calls_[next] < lives_[static_cast<size_t>(r)].start) {
        keep(calls_[next++]);
      }
      give(r);
    }
    while (next < calls_.size()) keep(calls_[next++]);
  }

  // Calls preserve no vector or mask registers. Those live across a call are saved on the stack
  // around it: at most calls there are few.
  void keep(int32_t call) {
    for (Class of : {Class::kVector, Class::kMask}) {
      for (Register r : holders_[static_cast<size_t>(of)]) {
        if (r == kNone || made_.of[static_cast<size_t>(r)].number < 0) continue;
        const Lifetime& life = lives_[static_cast<size_t>(r)];
        if (life.start > call || life.end <= call) continue;
        made_.kept.push_back({static_cast<uint32_t>(call / 2), r, slot(r)});
      }
    }
  }

  void give(Register r) {
    const auto i = static_cast<size_t>(r);
    const Class of = body_.classes[i];
    const bool is_kept = of == Class::kGeneral && is_across_call(lives_[i]);
    int8_t vectors[32], masks[] = {1, 2, 3, 4, 5};
    const int8_t* begin;
    const int8_t* end;
    if (of == Class::kGeneral) {
      begin = is_kept ? kKept : kGeneral;
      end = is_kept ? std::end(kKept) : std::end(kGeneral);
    } else if (of == Class::kMask) {
      begin = masks;
      end = std::end(masks);
    } else {
      const int8_t count = vectors_of(body_.level).values;
      for (int8_t n = 0; n < count; ++n) vectors[n] = n;
      begin = vectors;
      end = vectors + count;
    }
    Register* holders = holders_[static_cast<size_t>(of)];
    auto is_free = [&](int number) {
      const Register holder = holders[number];
      return holder == kNone || lives_[static_cast<size_t>(holder)].end < lives_[i].start;
    };
    int chosen = -1;
    const int wanted = hint(r);
    for (const int8_t* each = begin; each != end; ++each) {
      if (!is_free(*each)) continue;
      if (chosen < 0 || *each == wanted) chosen = *each;
      if (chosen == wanted || wanted < 0) break;
    }
    if (chosen < 0) {
      // Spill the one with the furthest end.
      for (const int8_t* each = begin; each != end; ++each) {
        if (chosen < 0 || lives_[static_cast<size_t>(holders[*each])].end >
                              lives_[static_cast<size_t>(holders[chosen])].end) {
          chosen = *each;
        }
      }
      if (lives_[static_cast<size_t>(holders[chosen])].end <= lives_[i].end) {
        to_stack(r);
        return;
      }
      to_stack(holders[chosen]);
    }
    holders[chosen] = r;
    made_.of[i].number = static_cast<int16_t>(chosen);
    if (of == Class::kGeneral) made_.saved |= 1u << chosen & kSaved;
  }

  int hint(Register r) const {
    const Register wanted = body_.hints[static_cast<size_t>(r)];
    if (wanted == kNone) return -1;
    if (wanted < kNone) return -2 - wanted;
    const Location& location = made_.of[static_cast<size_t>(wanted)];
    return location.number >= 0 ? location.number : -1;
  }

  void to_stack(Register r) { made_.of[static_cast<size_t>(r)] = {Location::kStack, slot(r)}; }

  // A stack slot for the live range of a register.
  int32_t slot(Register r) {
    const auto i = static_cast<size_t>(r);
    const bool is_vector = body_.classes[i] == Class::kVector;
    auto& slots = slots_[is_vector];
    for (Slot& slot : slots) {
      if (slot.until >= lives_[i].start) continue;
      slot.until = lives_[i].end;
      return slot.at;
    }
    const int32_t size = is_vector ? vectors_of(body_.level).bytes : 8;
    made_.frame = (made_.frame + size - 1) / size * size;
    if (made_.frame > (1 << 30)) throw NotUnderstood{"a function that needs much stack"};
    const auto at = static_cast<int32_t>(made_.frame);
    made_.frame += size;
    slots.push_back({at, lives_[i].end});
    return at;
  }

  struct Slot {
    int32_t at, until;
  };
  static constexpr uint32_t kSaved = 1u << 3 | 1u << 12 | 1u << 13 | 1u << 14 | 1u << 15;

  Body& body_;
  std::vector<Lifetime> lives_;
  std::vector<bool> kept_;
  std::vector<Loop> loops_;
  std::vector<int32_t> calls_;
  Register holders_[3][32];
  std::vector<Slot> slots_[2];
  Allocation made_;
};

}  // namespace

Allocation allocate(Body& body) { return Allocator(body).run(); }

}  // namespace kiln::assembler
