#include "base/cpu.h"

#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <set>
#include <sstream>
#include <string>

namespace lithe {
namespace {

std::string first_line(const std::string& path) {
  std::ifstream in(path);
  std::string line;
  std::getline(in, line);
  return line;
}

// The cgroup-v2 directory of this process and its parents, deepest first, as paths under /sys/fs/cgroup.
template <typename F>
void for_each_cgroup(F visit) {
  std::ifstream in("/proc/self/cgroup");
  std::string line;
  std::string path = "/";
  while (std::getline(in, line)) {
    if (line.starts_with("0::")) path = line.substr(3);
  }
  while (true) {
    visit("/sys/fs/cgroup" + (path == "/" ? "" : path));
    if (path.empty() || path == "/") break;
    path.erase(path.rfind('/'));
    if (path.empty()) path = "/";
  }
}

double cpu_quota() {
  double quota = std::numeric_limits<double>::infinity();
  for_each_cgroup([&](const std::string& dir) {
    std::istringstream line(first_line(dir + "/cpu.max"));
    std::string limit;
    double period = 0;
    if (line >> limit >> period && limit != "max" && period > 0)
      quota = std::min(quota, std::stod(limit) / period);
  });
  // cgroup v1
  const std::string v1 = first_line("/sys/fs/cgroup/cpu/cpu.cfs_quota_us");
  const std::string period = first_line("/sys/fs/cgroup/cpu/cpu.cfs_period_us");
  if (!v1.empty() && !period.empty() && v1[0] != '-') {
    quota = std::min(quota,
                     std::strtod(v1.c_str(), nullptr) / std::max(1.0, std::strtod(period.c_str(), nullptr)));
  }
  return quota;
}

int physical_cores() {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  if (sched_getaffinity(0, sizeof mask, &mask) != 0) return 1;
  std::set<std::string> cores;  // hyper-threads of one core name the same sibling list
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &mask)) continue;
    std::string siblings =
        first_line("/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/thread_siblings_list");
    cores.insert(siblings.empty() ? "cpu" + std::to_string(cpu) : siblings);
  }
  return std::max<int>(1, static_cast<int>(cores.size()));
}

std::uint64_t proc_value(const char* path, const std::string& key) {
  std::ifstream in(path);
  std::string line;
  while (std::getline(in, line)) {
    if (line.starts_with(key)) return std::strtoull(line.c_str() + key.size(), nullptr, 10) * 1024;
  }
  return 0;
}

/// What a limit on the address space (`ulimit -v`) still leaves.
std::uint64_t addressable_memory() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
    return std::numeric_limits<std::uint64_t>::max();
  const std::uint64_t used = proc_value("/proc/self/status", "VmSize:");
  return limit.rlim_cur > used ? limit.rlim_cur - used : 0;
}

}  // namespace

int default_threads() {
  const double quota = std::max(1.0, std::floor(cpu_quota()));
  return static_cast<int>(std::min<double>(physical_cores(), quota));
}

std::uint64_t file_cache_bytes(std::istream& memory_stat) {
  std::uint64_t sum = 0, bytes = 0;
  for (std::string key; memory_stat >> key >> bytes;) {
    if (key == "inactive_file" || key == "active_file") sum += bytes;
  }
  return sum;
}

std::uint64_t available_memory() {
  std::uint64_t available = proc_value("/proc/meminfo", "MemAvailable:");
  for_each_cgroup([&](const std::string& dir) {
    const std::string limit = first_line(dir + "/memory.max");
    if (limit.empty() || limit == "max") return;
    const std::uint64_t max = std::strtoull(limit.c_str(), nullptr, 10);
    const std::uint64_t used = std::strtoull(first_line(dir + "/memory.current").c_str(), nullptr, 10);
    std::ifstream stat(dir + "/memory.stat");
    const std::uint64_t held = used - std::min(used, file_cache_bytes(stat));
    available = std::min(available, max > held ? max - held : 0);
  });
  return std::min(available, addressable_memory());
}

std::uint64_t resident_memory() {
  return proc_value("/proc/self/status", "VmRSS:");
}

std::string cpu_model() {
  std::ifstream in("/proc/cpuinfo");
  std::string line;
  while (std::getline(in, line)) {
    if (line.starts_with("model name")) {
      const auto colon = line.find(": ");
      if (colon != std::string::npos) return line.substr(colon + 2);
    }
  }
  return "unknown CPU";
}

}  // namespace lithe
