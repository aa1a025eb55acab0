// What the headers of libstdc++ (GCC's standard library) call: exported libraries are linked without
// it.
#include <cstdlib>
#include <list>
#include <memory>
#include <typeinfo>

#include "kernels/recovery.h"

namespace std {

bool _Sp_make_shared_tag::_S_eq(const type_info&) noexcept { return false; }

namespace __detail {

void _List_node_base::_M_hook(_List_node_base* before) noexcept {
  _M_next = before;
  _M_prev = before->_M_prev;
  before->_M_prev->_M_next = this;
  before->_M_prev = this;
}
void _List_node_base::_M_unhook() noexcept {
  _M_prev->_M_next = _M_next;
  _M_next->_M_prev = _M_prev;
}
// Moves the nodes from `first` up to `last` before this one.
void _List_node_base::_M_transfer(_List_node_base* first, _List_node_base* last) noexcept {
  if (this == last) return;
  _List_node_base* const end = last->_M_prev;
  first->_M_prev->_M_next = last;
  last->_M_prev = first->_M_prev;
  _M_prev->_M_next = first;
  first->_M_prev = _M_prev;
  end->_M_next = this;
  _M_prev = end;
}

}  // namespace __detail

void __throw_length_error(const char*) { kiln::stop_kernel(kiln::kOutOfMemory); }
void __throw_bad_alloc() { kiln::stop_kernel(kiln::kOutOfMemory); }
void __throw_bad_array_new_length() { kiln::stop_kernel(kiln::kOutOfMemory); }
void __throw_system_error(int) { abort(); }

}  // namespace std
