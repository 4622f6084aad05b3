// What of this machine we may use.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>

namespace lithe {

/// Threads worth starting: the physical cores of the affinity mask, no more than the cgroup's CPU quota, at
/// least 1.
int default_threads();

/// Bytes of page cache in a cgroup's memory.stat ("key bytes" lines): counted as used there, but given back on demand.
std::uint64_t file_cache_bytes(std::istream& memory_stat);

/// Bytes of memory this process may still use: the least of what is free and what the limits of
/// the cgroup and of the address space (`ulimit -v`) leave.
std::uint64_t available_memory();

/// Resident set size of this process in bytes.
std::uint64_t resident_memory();

/// "Intel(R) Xeon(R) Processor", for the header of every measurement.
std::string cpu_model();

}  // namespace lithe
