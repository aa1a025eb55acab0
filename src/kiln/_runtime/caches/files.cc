// Modification times and sizes of files: kiln checks hundreds of them before it trusts the disk
// cache.
#include <dirent.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <string_view>
#include <vector>

#include "objects/object.h"

namespace kiln {
namespace {

struct File {
  std::string path;
  int64_t written;
  int64_t changed;
  int64_t size;
};

int64_t nanoseconds(const timespec& time) {
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

File described(std::string path, const struct stat& about) {
#ifdef __APPLE__
  const timespec &written = about.st_mtimespec, &changed = about.st_ctimespec;
#else
  const timespec &written = about.st_mtim, &changed = about.st_ctim;
#endif
  return {std::move(path), nanoseconds(written), nanoseconds(changed), int64_t{about.st_size}};
}

// Returns whether every file could be examined; if not, errno says why.
bool collect(const std::string& folder, std::string_view ending, std::vector<File>& found) {
  DIR* directory = opendir(folder.c_str());
  if (directory == nullptr) return false;
  std::vector<std::string> inner;
  bool is_complete = true;
  while (is_complete) {
    errno = 0;
    const dirent* entry = readdir(directory);
    if (entry == nullptr) {
      is_complete = errno == 0;
      break;
    }
    std::string_view name = entry->d_name;
    if (name == "." || name == ".." || name == "__pycache__") continue;
    bool is_wanted =
        name.size() > ending.size() && name.substr(name.size() - ending.size()) == ending;
    if (!is_wanted && entry->d_type == DT_REG) continue;
    std::string path = folder + "/" + entry->d_name;
    struct stat about;
    if (!is_wanted && entry->d_type == DT_DIR) {
      inner.push_back(std::move(path));
    } else if (fstatat(dirfd(directory), entry->d_name, &about, 0) != 0) {
      // A dangling link is not one of ours.
      is_complete = !is_wanted;
    } else if (is_wanted) {
      found.push_back(described(std::move(path), about));
    } else if (S_ISDIR(about.st_mode)) {
      inner.push_back(std::move(path));
    }
  }
  int why = errno;
  closedir(directory);
  errno = why;
  for (const std::string& each : inner) {
    is_complete = is_complete && collect(each, ending, found);
  }
  return is_complete;
}

PyObject* files_below(PyObject*, PyObject* args) {
  PyObject* path = nullptr;
  const char* ending;
  if (!PyArg_ParseTuple(args, "O&s", PyUnicode_FSConverter, &path, &ending)) return nullptr;
  Ref owned = Ref::own(path);
  const char* folder = PyBytes_AS_STRING(path);
  std::vector<File> found;
  if (!collect(folder, ending, found)) {
    return PyErr_SetFromErrnoWithFilename(PyExc_OSError, folder);
  }
  std::sort(found.begin(), found.end(),
            [](const File& one, const File& other) { return one.path < other.path; });
  Ref files = Ref::own(PyList_New(static_cast<Py_ssize_t>(found.size())));
  if (!files) return nullptr;
  for (size_t n = 0; n < found.size(); ++n) {
    PyObject* file = Py_BuildValue("(NLLL)", PyUnicode_DecodeFSDefault(found[n].path.c_str()),
                                   static_cast<long long>(found[n].written),
                                   static_cast<long long>(found[n].changed),
                                   static_cast<long long>(found[n].size));
    if (file == nullptr) return nullptr;
    PyList_SET_ITEM(files.get(), static_cast<Py_ssize_t>(n), file);
  }
  return files.release();
}

PyMethodDef functions[] = {
    {"files_below", files_below, METH_VARARGS,
     "Return the files below a folder whose names have an ending, in order: paths, when they were "
     "written, by what anybody may set, and last changed in any way, in nanoseconds, sizes. Raises "
     "OSError if something cannot be looked at."},
    {nullptr},
};

}  // namespace

int add_files(PyObject* module) { return PyModule_AddFunctions(module, functions); }

}  // namespace kiln
