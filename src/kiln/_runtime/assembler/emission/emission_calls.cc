// Encodes stack frames, calls and their arguments.
#include <algorithm>
#include <iterator>
#include <utility>

#include "assembler/emission/emitter.h"

namespace kiln::assembler {

void Emitter::begin() {
  has_frame_ = allocation_.frame > 0 || body_.calls || allocation_.saved != 0;
  if (!has_frame_) return;
  push(kRbp);
  x_.general(0x8b, kRbp, Place::of(kRsp), true);
  for (int r : kSavedRegisters) {
    if (allocation_.saved >> r & 1) push(r);
  }
  x_.general(0x83, 4, Place::of(kRsp), true, 1);  // and rsp, -64
  x_.byte(0xc0);
  if (allocation_.frame > 0) {
    x_.general(0x81, 5, Place::of(kRsp), true, 4);
    x_.immediate(allocation_.frame, 4);
  }
}

void Emitter::finish() {
  if (has_frame_) {
    int saved = 0;
    for (int r : kSavedRegisters) saved += allocation_.saved >> r & 1;
    x_.general(0x8d, kRsp, Place::at(kRbp, -8 * saved), true);
    for (int i = 4; i >= 0; --i) {
      const int r = kSavedRegisters[i];
      if (allocation_.saved >> r & 1) pop(r);
    }
    pop(kRbp);
  }
  x_.byte(0xc3);
}

void Emitter::push(int r) {
  if (r >= 8) x_.byte(0x41);
  x_.byte(0x50 | (r & 7));
}

void Emitter::pop(int r) {
  if (r >= 8) x_.byte(0x41);
  x_.byte(0x58 | (r & 7));
}

int Emitter::where(Register r) const {
  const Location& at = location(r);
  return at.number >= 0 ? at.number : kSlots + at.slot;
}

void Emitter::move_one(Class of, int to, int from) {
  if (to == from) return;
  const bool is_general = of == Class::kGeneral;
  const int register_ = to >= kSlots ? from : to;
  const Place other = to >= kSlots     ? Place::at(kRsp, to - kSlots)
                      : from >= kSlots ? Place::at(kRsp, from - kSlots)
                                       : Place::of(from);
  if (is_general) x_.general(to >= kSlots ? 0x89 : 0x8b, register_, other, true);
  else if (to >= kSlots) store_vector(register_, other);
  else load_vector(register_, other);
}

void Emitter::move_all(Class of, std::vector<Move>& moves) {
  const int spare = of == Class::kGeneral ? kRax : vectors_.result();
  while (!moves.empty()) {
    bool has_moved = false;
    for (size_t i = 0; i < moves.size(); ++i) {
      const int to = moves[i].to;
      const bool is_read = std::any_of(moves.begin(), moves.end(), [&](const Move& other) {
        return &other != &moves[i] && other.from == to;
      });
      if (is_read) continue;
      move_one(of, to, moves[i].from);
      moves.erase(moves.begin() + static_cast<std::ptrdiff_t>(i));
      has_moved = true;
      break;
    }
    if (has_moved) continue;
    // Only cycles are left.
    const int from = moves.front().from;
    move_one(of, spare, from);
    for (Move& each : moves) {
      if (each.from == from) each.from = spare;
    }
  }
}

// Move registers to or from the argument registers.
void Emitter::pass(uint32_t first, uint32_t count, bool out) {
  std::vector<Move> generals, vectors;
  for (uint32_t i = 0; i < count; ++i) {
    const Register r = body_.lists[first + i];
    const bool is_general = class_of(r) == Class::kGeneral;
    auto& moves = is_general ? generals : vectors;
    const size_t n = moves.size();
    if (n >= (is_general ? std::size(kArguments) : vectors_.arguments)) {
      throw NotUnderstood{"a function of many arguments"};
    }
    moves.push_back({is_general ? kArguments[n] : static_cast<int>(n), where(r)});
    if (!out) std::swap(moves.back().to, moves.back().from);
    // An unused parameter has no location.
    if (!out && location(r).number == Location::kUnused) moves.back().to = -1;
  }
  for (auto* moves : {&generals, &vectors}) {
    moves->erase(
        std::remove_if(moves->begin(), moves->end(), [](const Move& each) { return each.to < 0; }),
        moves->end());
  }
  move_all(Class::kGeneral, generals);
  move_all(Class::kVector, vectors);
}

// Save the registers live across the call, or reload them.
void Emitter::keep(size_t first, size_t end, bool out) {
  for (size_t i = first; i < end; ++i) {
    const Allocation::Kept& each = allocation_.kept[i];
    const Location& at = location(each.of);
    // It may have been spilled for its whole live range.
    if (at.number < 0) continue;
    const Place slot = Place::at(kRsp, each.slot);
    if (class_of(each.of) != Class::kVector) {
      x_.vector(out ? kStoreMask : kMoveMask, 0, at.number, -1, slot);
    } else if (out) {
      store_vector(at.number, slot);
    } else {
      load_vector(at.number, slot);
    }
  }
}

void Emitter::emit_call(const Op& op) {
  const auto& kept = allocation_.kept;
  const size_t first = kept_;
  while (kept_ < kept.size() && kept[kept_].call == place_) ++kept_;
  keep(first, kept_, true);
  pass(op.first, op.count, true);
  const bool is_here = image_.is_defined(op.number) || op.digit != 0;
  if (!is_here) x_.vector(kClearUpper, 0, 0, -1, Place::of(0), 0), drop_operand();
  x_.byte(0xe8);
  image_.refer({static_cast<uint32_t>(x_.at()), 0, false, op.number});
  x_.immediate(0, 4);
  std::vector<Move> vectors;
  for (uint32_t i = 0; i < op.results; ++i) {
    const Register r = body_.lists[op.first + op.count + i];
    if (location(r).number == Location::kUnused) continue;
    if (class_of(r) == Class::kGeneral) move_one(Class::kGeneral, where(r), kRax);
    else vectors.push_back({where(r), static_cast<int>(i)});
  }
  move_all(Class::kVector, vectors);
  keep(first, kept_, false);
}

void Emitter::emit_return(const Op& op) {
  if (op.count > 0 && class_of(body_.lists[op.first]) == Class::kGeneral) {
    move_one(Class::kGeneral, kRax, where(body_.lists[op.first]));
  } else {
    pass(op.first, op.count, true);
  }
  if (!body_.returns_vector) {
    x_.vector(kClearUpper, 0, 0, -1, Place::of(0));
    drop_operand();
  }
  finish();
}

}  // namespace kiln::assembler
