#include "machine/processors.h"

#include <unistd.h>
#ifdef __linux__
#include <sched.h>
#endif

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>

namespace kiln {
namespace {

int32_t allowed() {
#ifdef __linux__
  // A CPU set of the default size is too small for the largest machines.
  for (int room = 1024; room <= 1 << 20; room *= 4) {
    cpu_set_t* set = CPU_ALLOC(room);
    if (set == nullptr) break;
    size_t bytes = CPU_ALLOC_SIZE(room);
    int count = sched_getaffinity(0, bytes, set) == 0 ? CPU_COUNT_S(bytes, set) : 0;
    CPU_FREE(set);
    if (count > 0) return count;
  }
#endif
  return static_cast<int32_t>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN)));
}

int32_t rounded_up(long long quota, long long period) {
  if (quota <= 0 || period <= 0) return 0;
  return static_cast<int32_t>(std::min<long long>((quota - 1) / period + 1, 1 << 20));
}

int32_t least(int32_t one, int32_t other) {
  return one == 0 ? other : other == 0 ? one : std::min(one, other);
}

// Numbers are not read by `>>`: it fails in a wheel, whose libstdc++ is linked statically.
std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// "max 100000" or "150000 100000".
int32_t quota_of_v2(const std::string& folder) {
  const std::string line = first_line(folder + "/cpu.max");
  char* rest = nullptr;
  const long long quota = std::strtoll(line.c_str(), &rest, 10);
  return rounded_up(quota, std::strtoll(rest, nullptr, 10));
}

int32_t quota_of_v1(const std::string& folder) {
  const std::string quota = first_line(folder + "/cpu.cfs_quota_us");
  const std::string period = first_line(folder + "/cpu.cfs_period_us");
  return rounded_up(std::strtoll(quota.c_str(), nullptr, 10),
                    std::strtoll(period.c_str(), nullptr, 10));
}

// The smallest quota of a control group and its ancestors. Inside a container the path may be the
// host's and not exist: then the root is used.
template <typename Quota>
int32_t least_quota(const std::string& mount, std::string path, Quota quota_of) {
  int32_t found = quota_of(mount);
  while (!path.empty() && path != "/") {
    found = least(found, quota_of(mount + path));
    size_t slash = path.find_last_of('/');
    path = slash == std::string::npos ? "" : path.substr(0, slash);
  }
  return found;
}

bool has_controller(const std::string& controllers, const std::string& wanted) {
  std::stringstream all(controllers);
  for (std::string each; std::getline(all, each, ',');) {
    if (each == wanted) return true;
  }
  return false;
}

}  // namespace

int32_t processor_quota(const std::string& root) {
  std::ifstream groups(root + "/proc/self/cgroup");
  int32_t found = 0;
  for (std::string line; std::getline(groups, line);) {
    // number:controllers:path
    size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    std::string controllers = line.substr(first + 1, second - first - 1);
    std::string path = line.substr(second + 1);
    if (controllers.empty()) {
      for (const char* mount : {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"}) {
        found = least(found, least_quota(root + mount, path, quota_of_v2));
      }
    } else if (has_controller(controllers, "cpu")) {
      for (const char* mount : {"/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct"}) {
        found = least(found, least_quota(root + mount, path, quota_of_v1));
      }
    }
  }
  return found;
}

int32_t processors() {
  static const int32_t found = least(allowed(), processor_quota(""));
  return found;
}

}  // namespace kiln
