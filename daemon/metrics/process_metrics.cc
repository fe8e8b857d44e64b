#include "daemon/metrics/process_metrics.h"

#include <dirent.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <charconv>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/metrics/build_info.h"

namespace locksley::daemon {
namespace {

// The fields of /proc/self/stat, by their number in proc(5), from 3 on. The fields before are the
// pid and the name, which may contain any character.
class StatFields {
 public:
  static constexpr std::size_t kVirtualBytes = 23;
  static constexpr std::size_t kResidentPages = 24;
  static constexpr std::size_t kStartTicks = 22;

  StatFields() {
    std::ifstream file("/proc/self/stat");
    std::string line;
    std::getline(file, line);
    const std::size_t name_end = line.rfind(") ");
    if (name_end == std::string::npos) return;
    std::string_view rest = std::string_view(line).substr(name_end + 2);
    while (!rest.empty()) {
      const std::size_t end = std::min(rest.find(' '), rest.size());
      fields_.emplace_back(rest.substr(0, end));
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
  }

  std::optional<double> get(std::size_t number) const {
    if (number - 3 >= fields_.size()) return std::nullopt;
    const std::string& field = fields_[number - 3];
    double value = 0;
    const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), value);
    if (error != std::errc() || end != field.data() + field.size()) return std::nullopt;
    return value;
  }

 private:
  std::vector<std::string> fields_;
};

// Unix time at which the machine started, in seconds.
std::optional<double> boot_time() {
  std::ifstream file("/proc/stat");
  std::string word;
  double value = 0;
  while (file >> word) {
    if (word == "btime" && file >> value) return value;
  }
  return std::nullopt;
}

std::optional<double> open_descriptors() {
  // Since version 6.2, Linux reports the number of descriptors as the size of the folder. To read
  // the folder of 2,000 descriptors takes some 5 ms.
  struct stat folder{};
  if (::stat("/proc/self/fd", &folder) == 0 && folder.st_size > 0) return static_cast<double>(folder.st_size);
  struct Close {
    void operator()(DIR* directory) const { ::closedir(directory); }
  };
  const std::unique_ptr<DIR, Close> directory(::opendir("/proc/self/fd"));
  if (!directory) return std::nullopt;
  double count = -1;  // the descriptor of `directory` does not count
  while (const dirent* entry = ::readdir(directory.get())) {
    if (entry->d_name[0] != '.') ++count;
  }
  return count;
}

std::optional<double> descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return std::nullopt;
  return static_cast<double>(limit.rlim_cur);
}

std::optional<double> cpu_seconds() {
  rusage usage{};
  if (::getrusage(RUSAGE_SELF, &usage) != 0) return std::nullopt;
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

std::optional<double> scaled(std::optional<double> value, double factor) {
  if (!value) return std::nullopt;
  return *value * factor;
}

void append(Family family, std::optional<double> value, Families& families) {
  if (!value) return;
  family.add({}, *value);
  std::move(family).move_to(families);
}

}  // namespace

void read_process_metrics(Families& families) {
  const StatFields stat;
  append(Family::counter("process_cpu_seconds_total", "User and system CPU time used, in seconds."),
         cpu_seconds(), families);
  append(Family::gauge("process_resident_memory_bytes", "Resident memory, in bytes."),
         scaled(stat.get(StatFields::kResidentPages), static_cast<double>(::sysconf(_SC_PAGESIZE))),
         families);
  append(Family::gauge("process_virtual_memory_bytes", "Virtual memory, in bytes."),
         stat.get(StatFields::kVirtualBytes), families);
  append(Family::gauge("process_open_fds", "Open file descriptors."), open_descriptors(), families);
  append(Family::gauge("process_max_fds", "The most file descriptors that may be open."), descriptor_limit(),
         families);
  const std::optional<double> since_boot =
      scaled(stat.get(StatFields::kStartTicks), 1.0 / static_cast<double>(::sysconf(_SC_CLK_TCK)));
  const std::optional<double> boot = boot_time();
  append(Family::gauge("process_start_time_seconds", "Unix time at which the process started, in seconds."),
         since_boot && boot ? std::optional(*since_boot + *boot) : std::nullopt, families);
}

void read_build_info(Families& families) {
  Family family =
      Family::gauge("locksley_build_info", "1, labelled with the version and the revision that was built.");
  family.add({{"version", kBuildVersion}, {"revision", kBuildRevision}}, 1.0);
  std::move(family).move_to(families);
}

}  // namespace locksley::daemon
