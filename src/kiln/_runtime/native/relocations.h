// What the linker of object files knows about a processor: how its code refers to what is elsewhere.
#pragma once

#include <cstdint>
#include <cstring>

namespace kiln {

// What a relocation refers to: a symbol, code that jumps to it, or memory that holds its address.
enum class Refers { kNever, kToSymbol, kToStub, kToSlot };

template <typename T>
void write(char* where, T value) {
  std::memcpy(where, &value, sizeof value);
}

namespace x86_64 {

constexpr uint16_t kMachine = 62;
// jmp *(the eight bytes after it)
constexpr unsigned char kJump[] = {0xff, 0x25, 0, 0, 0, 0};

constexpr uint32_t k64 = 1, kPc32 = 2, kPlt32 = 4, kGotPcRel = 9, kPc64 = 24, kGotPcRelX = 41,
                   kRexGotPcRelX = 42;

inline Refers refers(uint32_t type) {
  switch (type) {
    case k64:
    case kPc64: return Refers::kToSymbol;
    case kPc32:
    case kPlt32: return Refers::kToStub;
    case kGotPcRel:
    case kGotPcRelX:
    case kRexGotPcRelX: return Refers::kToSlot;
    default: return Refers::kNever;
  }
}

inline size_t width(uint32_t type) { return type == k64 || type == kPc64 ? 8 : 4; }

// Returns whether `to` is within reach.
inline bool relocate(uint32_t type, char* where, uint64_t to) {
  const uint64_t distance = to - reinterpret_cast<uint64_t>(where);
  if (type == k64) write(where, to);
  else if (type == kPc64) write(where, distance);
  else write(where, static_cast<int32_t>(distance));
  return width(type) == 8 || static_cast<int64_t>(distance) == static_cast<int32_t>(distance);
}

}  // namespace x86_64

namespace aarch64 {

constexpr uint16_t kMachine = 183;
// ldr x16, (the eight bytes after them); br x16
constexpr unsigned char kJump[] = {0x50, 0, 0, 0x58, 0, 2, 0x1f, 0xd6};

constexpr uint32_t k64 = 257, kPc64 = 260, kPc32 = 261, kPage = 275, kAdd = 277, kOf1 = 278,
                   kJump26 = 282, kCall26 = 283, kOf2 = 284, kOf4 = 285, kOf8 = 286, kOf16 = 299,
                   kGotPage = 311, kGotOf8 = 312;

inline Refers refers(uint32_t type) {
  switch (type) {
    case k64:
    case kPc64:
    case kPc32:
    case kPage:
    case kAdd:
    case kOf1:
    case kOf2:
    case kOf4:
    case kOf8:
    case kOf16: return Refers::kToSymbol;
    case kJump26:
    case kCall26: return Refers::kToStub;
    case kGotPage:
    case kGotOf8: return Refers::kToSlot;
    default: return Refers::kNever;
  }
}

inline size_t width(uint32_t type) { return type == k64 || type == kPc64 ? 8 : 4; }

// Puts the bits of a field into an instruction.
inline void insert(char* where, uint64_t bits, int first, int count) {
  uint32_t instruction;
  std::memcpy(&instruction, where, sizeof instruction);
  const uint32_t mask = ((uint32_t{1} << count) - 1) << first;
  write(where, (instruction & ~mask) | (static_cast<uint32_t>(bits << first) & mask));
}

// Returns whether `to` is within reach.
inline bool relocate(uint32_t type, char* where, uint64_t to) {
  const auto here = reinterpret_cast<uint64_t>(where);
  const auto fits = [](int64_t distance, int bits) {
    return distance >> (bits - 1) == 0 || distance >> (bits - 1) == -1;
  };
  // Loads and stores count within a page of 4096 bytes, in units of what they move.
  const auto within_page = [&](int shift) {
    insert(where, (to & 0xfff) >> shift, 10, 12);
    return (to & ((1 << shift) - 1)) == 0;
  };
  const auto distance = static_cast<int64_t>(to - here);
  switch (type) {
    case k64: write(where, to); return true;
    case kPc64: write(where, distance); return true;
    case kPc32: write(where, static_cast<int32_t>(distance)); return fits(distance, 32);
    case kJump26:
    case kCall26: insert(where, distance >> 2, 0, 26); return fits(distance, 28);
    case kPage:
    case kGotPage: {
      const auto pages = static_cast<int64_t>((to >> 12) - (here >> 12));
      insert(where, pages, 29, 2);
      insert(where, pages >> 2, 5, 19);
      return fits(pages, 21);
    }
    case kOf2: return within_page(1);
    case kOf4: return within_page(2);
    case kOf8:
    case kGotOf8: return within_page(3);
    case kOf16: return within_page(4);
    default: return within_page(0);
  }
}

}  // namespace aarch64

#if defined(__aarch64__)
namespace host = aarch64;
#else
namespace host = x86_64;
#endif

}  // namespace kiln
