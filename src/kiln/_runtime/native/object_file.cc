// Loads object files into memory: a linker for code that may be called as long as a Python object
// lives, and whose memory is then released completely.
//
// It accepts ELF objects for the host with position-independent code of the small code model, as
// engines/native/ generates them. For others the engine falls back to LLVM's linker.
#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "native/relocations.h"
#include "objects/object.h"

namespace kiln {
namespace {

struct FileHeader {
  unsigned char magic[4], bits, order, rest[10];
  uint16_t type, machine;
  uint32_t version;
  uint64_t entry, programs, sections;
  uint32_t flags;
  uint16_t size, program_size, program_count, section_size, section_count, names;
};

struct Section {
  uint32_t name, type;
  uint64_t flags, address, offset, size;
  uint32_t link, info;
  uint64_t alignment, item;
};

struct SymbolEntry {
  uint32_t name;
  unsigned char info, other;
  uint16_t section;
  uint64_t value, size;
};

struct Relocation {
  uint64_t offset;
  uint32_t type, symbol;
  int64_t addend;
};

constexpr uint16_t kRelocatable = 1;
constexpr uint32_t kSymbols = 2, kRelocations = 4, kNoBits = 8;
constexpr uint64_t kWritten = 1, kLoaded = 2, kCode = 4;
constexpr uint16_t kUndefined = 0, kAbsolute = 0xfff1;
constexpr size_t kStub = 16;
constexpr size_t kMost = size_t{1} << 30;  // bytes of an object

size_t rounded(size_t size, size_t to) { return (size + to - 1) / to * to; }

struct Mapping {
  void* begin;
  size_t size;
};

void unmap(PyObject* capsule) {
  auto* mapping = static_cast<Mapping*>(PyCapsule_GetPointer(capsule, nullptr));
  munmap(mapping->begin, mapping->size);
  delete mapping;
}

// Loads one object. If it cannot, `refusal` says why.
class Linker {
 public:
  Linker(std::string_view image, PyObject* symbols) : image_(image), known_(symbols) {}
  ~Linker() {
    if (memory_ != nullptr) munmap(memory_, size_);
  }
  Linker(const Linker&) = delete;
  Linker& operator=(const Linker&) = delete;

  bool link() { return read() && place() && relocate() && protect(); }
  const char* refusal() const { return refusal_; }
  char* find(std::string_view name) const {
    for (const SymbolEntry& symbol : symbols_) {
      if (symbol.section != kUndefined && name_of(symbol) == name) return defined(symbol);
    }
    return nullptr;
  }
  Ref take() {
    auto* mapping = new Mapping{memory_, size_};
    Ref owner = Ref::own(PyCapsule_New(mapping, nullptr, unmap));
    if (owner) memory_ = nullptr;
    else delete mapping;
    return owner;
  }

 private:
  bool refuse(const char* why) {
    refusal_ = why;
    return false;
  }
  bool holds(uint64_t offset, uint64_t size) const {
    return offset <= image_.size() && size <= image_.size() - offset;
  }
  template <typename T>
  T at(uint64_t offset) const {
    T found;
    std::memcpy(&found, image_.data() + offset, sizeof found);
    return found;
  }

  bool read() {
    if (!holds(0, sizeof(FileHeader))) return refuse("it is too short");
    const auto header = at<FileHeader>(0);
    if (std::memcmp(header.magic, "\177ELF", 4) != 0 || header.bits != 2 || header.order != 1 ||
        header.type != kRelocatable || header.machine != host::kMachine) {
      return refuse("it is not an object for this processor");
    }
    if (header.section_size != sizeof(Section) ||
        !holds(header.sections, uint64_t{header.section_count} * sizeof(Section))) {
      return refuse("its sections are damaged");
    }
    for (uint64_t i = 0; i < header.section_count; ++i) {
      sections_.push_back(at<Section>(header.sections + i * sizeof(Section)));
      const Section& section = sections_.back();
      if (section.type == kNoBits ? section.size > kMost : !holds(section.offset, section.size)) {
        return refuse("a section is outside of it");
      }
      if (section.alignment > page() || (section.alignment & (section.alignment - 1)) != 0) {
        return refuse("a section has an odd alignment");
      }
    }
    for (const Section& section : sections_) {
      if (section.type != kSymbols) continue;
      if (section.link >= sections_.size()) return refuse("its names are damaged");
      names_ = image_.substr(sections_[section.link].offset, sections_[section.link].size);
      for (uint64_t k = 0; k + sizeof(SymbolEntry) <= section.size; k += sizeof(SymbolEntry)) {
        symbols_.push_back(at<SymbolEntry>(section.offset + k));
        const SymbolEntry& symbol = symbols_.back();
        const bool is_here = symbol.section < sections_.size();
        if (symbol.name > names_.size() || (!is_here && symbol.section != kAbsolute)) {
          return refuse("a symbol is damaged");
        }
        if (is_here && symbol.section != kUndefined &&
            symbol.value > sections_[symbol.section].size) {
          return refuse("a symbol is outside of its section");
        }
      }
    }
    return true;
  }

  static size_t page() {
    static const auto size = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    return size;
  }

  // Code comes first, with a stub for each external function; then, on pages of their own, the
  // data, with the table of addresses that code loads.
  bool place() {
    places_.assign(sections_.size(), kNowhere);
    size_t elsewhere = 0;
    for (const SymbolEntry& symbol : symbols_) elsewhere += symbol.section == kUndefined;
    size_t end = 0;
    auto put = [&](bool code) {
      for (size_t i = 0; i < sections_.size(); ++i) {
        const Section& section = sections_[i];
        if ((section.flags & kLoaded) == 0 || ((section.flags & kCode) != 0) != code) continue;
        is_written_ |= !code && (section.flags & kWritten) != 0;
        places_[i] = rounded(end, section.alignment == 0 ? 1 : section.alignment);
        end = places_[i] + section.size;
      }
    };
    put(true);
    stubs_ = rounded(end, kStub);
    data_ = end = rounded(stubs_ + elsewhere * kStub, page());
    put(false);
    slots_ = rounded(end, 8);
    size_ = rounded(slots_ + symbols_.size() * 8, page());
    if (size_ > kMost) return refuse("it is too large");
    void* made = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (made == MAP_FAILED) return refuse("there is no memory for it");
    memory_ = static_cast<char*>(made);
    for (size_t i = 0; i < sections_.size(); ++i) {
      const Section& section = sections_[i];
      if (places_[i] == kNowhere || section.type == kNoBits || section.size == 0) continue;
      std::memcpy(memory_ + places_[i], image_.data() + section.offset, section.size);
    }
    return true;
  }

  std::string_view name_of(const SymbolEntry& symbol) const {
    const std::string_view rest = names_.substr(symbol.name);
    return rest.substr(0, rest.find('\0'));
  }

  char* defined(const SymbolEntry& symbol) const {
    if (symbol.section == kAbsolute) return reinterpret_cast<char*>(symbol.value);
    const size_t place = places_[symbol.section];
    return place == kNowhere ? nullptr : memory_ + place + symbol.value;
  }

  // The address of a symbol: in the object, in the extension, or in the process.
  char* address(uint32_t number) {
    auto [found, is_new] = addresses_.try_emplace(number, nullptr);
    if (!is_new) return found->second;
    const SymbolEntry& symbol = symbols_[number];
    if (symbol.section != kUndefined) return found->second = defined(symbol);
    const std::string name(name_of(symbol));
    PyObject* known = PyDict_GetItemString(known_, name.c_str());
    void* there = known != nullptr ? PyLong_AsVoidPtr(known) : dlsym(RTLD_DEFAULT, name.c_str());
    return found->second = static_cast<char*>(there);
  }

  bool relocate() {
    for (const Section& section : sections_) {
      if (section.type != kRelocations) continue;
      if (section.info >= sections_.size()) return refuse("a relocation is damaged");
      const Section& of = sections_[section.info];
      if (places_[section.info] == kNowhere) continue;
      for (uint64_t k = 0; k + sizeof(Relocation) <= section.size; k += sizeof(Relocation)) {
        const auto relocation = at<Relocation>(section.offset + k);
        const size_t width = host::width(relocation.type);
        if (relocation.symbol >= symbols_.size() || of.size < width ||
            relocation.offset > of.size - width) {
          return refuse("a relocation is outside of its section");
        }
        char* where = memory_ + places_[section.info] + relocation.offset;
        if (!apply(relocation, where)) return false;
      }
    }
    return true;
  }

  bool apply(const Relocation& relocation, char* where) {
    char* to = address(relocation.symbol);
    if (to == nullptr) return refuse("it needs a symbol that nobody defines");
    switch (host::refers(relocation.type)) {
      case Refers::kNever: return refuse("it has a relocation of another kind");
      case Refers::kToSymbol: break;
      case Refers::kToStub:
        if (symbols_[relocation.symbol].section == kUndefined) to = stub(relocation.symbol, to);
        break;
      case Refers::kToSlot: to = slot(relocation.symbol, to); break;
    }
    const auto target = reinterpret_cast<uint64_t>(to) + static_cast<uint64_t>(relocation.addend);
    if (!host::relocate(relocation.type, where, target)) {
      return refuse("its parts are too far apart");
    }
    return true;
  }

  // A stub that jumps to a function out of range of a call.
  char* stub(uint32_t number, char* to) {
    auto [found, is_new] = stub_of_.try_emplace(number, memory_ + stubs_ + stub_of_.size() * kStub);
    if (is_new) {
      std::memcpy(found->second, host::kJump, sizeof host::kJump);
      write(found->second + sizeof host::kJump, to);
    }
    return found->second;
  }

  // Memory that holds the address of a symbol.
  char* slot(uint32_t number, char* to) {
    char* place = memory_ + slots_ + number * size_t{8};
    write(place, to);
    return place;
  }

  bool protect() {
    // Some processors read instructions from a cache that does not see what was written.
    __builtin___clear_cache(memory_, memory_ + data_);
    if (mprotect(memory_, data_, PROT_READ | PROT_EXEC) != 0) {
      return refuse("its memory cannot be made executable");
    }
    if (!is_written_) mprotect(memory_ + data_, size_ - data_, PROT_READ);
    return true;
  }

  static constexpr size_t kNowhere = ~size_t{0};
  const std::string_view image_;
  PyObject* const known_;
  const char* refusal_ = nullptr;
  std::vector<Section> sections_;
  std::vector<SymbolEntry> symbols_;
  std::string_view names_;
  std::vector<size_t> places_;
  std::unordered_map<uint32_t, char*> addresses_, stub_of_;
  size_t stubs_ = 0, data_ = 0, slots_ = 0, size_ = 0;
  char* memory_ = nullptr;
  bool is_written_ = false;
};

// link_object(image, entry, symbols) -> (address, owner), or what kept it from being linked.
PyObject* link_object(PyObject*, PyObject* args) {
  const char* data;
  Py_ssize_t size;
  const char* entry;
  PyObject* symbols;
  if (!PyArg_ParseTuple(args, "y#sO!", &data, &size, &entry, &PyDict_Type, &symbols)) {
    return nullptr;
  }
  Linker linker({data, static_cast<size_t>(size)}, symbols);
  if (!linker.link()) {
    if (PyErr_Occurred()) return nullptr;
    return PyUnicode_FromString(linker.refusal());
  }
  char* address = linker.find(entry);
  if (address == nullptr) return PyUnicode_FromFormat("it does not define %s", entry);
  Ref owner = linker.take();
  if (!owner) return nullptr;
  return Py_BuildValue("(NO)", PyLong_FromVoidPtr(address), owner.get());
}

PyMethodDef functions[] = {
    {"link_object", link_object, METH_VARARGS,
     "Load an object; return the address of its entry and its owner, or why "
     "it cannot be linked."},
    {nullptr},
};

}  // namespace

int add_object_file(PyObject* module) { return PyModule_AddFunctions(module, functions); }

}  // namespace kiln
