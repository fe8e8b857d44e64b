#include "daemon/cli/exec/joblog.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <map>
#include <sstream>

namespace locksley::cli {

using client::client_error;
using client::Expected;
using Kind = client::ClientError::Kind;

namespace {

constexpr std::string_view kHeader =
    "Seq\tHost\tStarttime\tJobRuntime\tSend\tReceive\tExitval\tSignal\tCommand\n";
constexpr std::size_t kColumns = 9;
// The words of the note, indexed by ExecResume.
constexpr std::array<std::string_view, 4> kResumeWords{"all", "resume", "resume-failed", "retry-failed"};

template <class T>
bool parse_column(std::string_view text, T& value) {
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && rest == text.data() + text.size();
}

}  // namespace

Joblog::~Joblog() {
  if (fd_ >= 0) ::close(fd_);
}

std::unexpected<client::ClientError> Joblog::fault(const std::string& what) const {
  return client_error(Kind::kLocal, path_ + ": " + what);
}

Expected<void> Joblog::open(const std::string& path, ExecResume resume) {
  path_ = path;
  const int create = resume == ExecResume::kRetry ? 0 : O_CREAT;
  fd_ = ::open(path.c_str(), O_RDWR | O_APPEND | O_CLOEXEC | create, 0666);
  if (fd_ < 0) return fault(std::strerror(errno));
  struct stat status{};
  if (::fstat(fd_, &status) != 0) return fault(std::strerror(errno));
  has_note_ = S_ISREG(status.st_mode);
  if (!has_note_ && resume != ExecResume::kNo)
    return fault("not a regular file, so no run can be resumed from it");
  if (!has_note_) return {};
  if (::flock(fd_, LOCK_EX | LOCK_NB) != 0) return fault("another locksley exec writes this joblog");
  if (resume == ExecResume::kNo) return {};
  const auto whole = read_rows();
  if (!whole) return std::unexpected(whole.error());
  if (::ftruncate(fd_, static_cast<off_t>(*whole)) != 0) return fault(std::strerror(errno));
  if (::lseek(fd_, 0, SEEK_END) == 0) return write_all(kHeader);
  return {};
}

Expected<void> Joblog::read(const std::string& path, ExecResume resume) {
  path_ = path;
  fd_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd_ < 0 && errno == ENOENT && resume != ExecResume::kRetry) return {};
  if (fd_ < 0) return fault(std::strerror(errno));
  if (const auto whole = read_rows(); !whole) return std::unexpected(whole.error());
  return {};
}

Expected<void> Joblog::begin_anew() {
  if (has_note_ && ::ftruncate(fd_, 0) != 0) return fault(std::strerror(errno));
  remove_note();
  return write_all(kHeader);
}

Expected<std::size_t> Joblog::read_rows() {
  std::string text;
  std::vector<char> piece(std::size_t{256} << 10);
  for (;;) {
    const ssize_t count = ::read(fd_, piece.data(), piece.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return fault(std::strerror(errno));
    if (count == 0) break;
    text.append(piece.data(), static_cast<std::size_t>(count));
  }
  const std::size_t whole = text.rfind('\n') + 1;  // 0 if there is none
  std::string_view rest = std::string_view(text).substr(0, whole);
  for (std::size_t number = 1; !rest.empty(); ++number) {
    const std::size_t end = rest.find('\n');
    if (auto read = read_row(rest.substr(0, end), number); !read) return std::unexpected(read.error());
    rest.remove_prefix(end + 1);
  }
  return whole;
}

Expected<void> Joblog::read_row(std::string_view line, std::size_t line_number) {
  const std::string where = path_ + ": line " + std::to_string(line_number);
  if (line_number == 1) {
    if (line == kHeader.substr(0, kHeader.size() - 1)) return {};
    return client_error(Kind::kInput,
                        where + " is not the first line of a joblog of GNU parallel or locksley exec");
  }
  std::array<std::string_view, kColumns> columns;
  for (std::size_t i = 0; i < kColumns; ++i) {
    const std::size_t tab = i + 1 == kColumns ? std::string_view::npos : line.find('\t');
    columns[i] = line.substr(0, tab);
    const bool is_short = i + 1 != kColumns && tab == std::string_view::npos;
    if (is_short) return client_error(Kind::kInput, where + " has less than nine columns");
    line.remove_prefix(tab == std::string_view::npos ? line.size() : tab + 1);
  }
  Entry entry{};
  int exit_value = 0;
  int signal = 0;
  if (!parse_column(columns[0], entry.number) || entry.number == 0 || !parse_column(columns[6], exit_value) ||
      !parse_column(columns[7], signal)) {
    return client_error(Kind::kInput, where + " is not a row of a joblog");
  }
  entry.has_failed = exit_value != 0 || signal != 0;
  if (entry.has_failed) entry.command = columns[8];
  rows_.push_back(std::move(entry));
  return {};
}

std::vector<std::uint64_t> Joblog::done(std::size_t rows, ExecResume resume) const {
  std::map<std::uint64_t, bool> last;  // whether it failed, by number
  const std::size_t count = std::min(rows, rows_.size());
  for (std::size_t i = 0; i < count; ++i) last[rows_[i].number] = rows_[i].has_failed;
  std::vector<std::uint64_t> numbers;
  for (const auto& [number, has_failed] : last) {
    if (!has_failed || resume == ExecResume::kRest) numbers.push_back(number);
  }
  return numbers;
}

std::vector<std::uint64_t> Joblog::logged_after(std::size_t rows, bool has_failed) const {
  std::map<std::uint64_t, bool> last;  // whether it failed, by number
  for (std::size_t i = std::min(rows, rows_.size()); i < rows_.size(); ++i)
    last[rows_[i].number] = rows_[i].has_failed;
  std::vector<std::uint64_t> numbers;
  for (const auto& [number, failed] : last) {
    if (failed == has_failed) numbers.push_back(number);
  }
  return numbers;
}

std::vector<std::pair<std::uint64_t, std::string>> Joblog::failed(std::size_t rows) const {
  std::map<std::uint64_t, const Entry*> last;
  const std::size_t count = std::min(rows, rows_.size());
  for (std::size_t i = 0; i < count; ++i) last[rows_[i].number] = &rows_[i];
  std::vector<std::pair<std::uint64_t, std::string>> result;
  for (const auto& [number, entry] : last) {
    if (entry->has_failed) result.emplace_back(number, entry->command);
  }
  return result;
}

std::string Joblog::line_of(const Row& row) {
  std::array<char, 128> numbers{};
  std::snprintf(numbers.data(), numbers.size(), "%10.3f\t%10.3f", static_cast<double>(row.started_ms) / 1e3,
                static_cast<double>(row.runtime_us) / 1e6);
  return std::to_string(row.number)
      .append("\t:\t")
      .append(numbers.data())
      .append("\t0\t")
      .append(std::to_string(row.received))
      .append("\t")
      .append(std::to_string(row.exit_value))
      .append("\t")
      .append(std::to_string(row.signal))
      .append("\t")
      .append(row.command)
      .append("\n");
}

Expected<void> Joblog::flush() {
  if (unwritten_.empty()) return {};
  auto written = write_all(unwritten_);
  unwritten_.clear();
  return written;
}

Expected<void> Joblog::write_all(std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = ::write(fd_, text.data(), text.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return fault(std::strerror(errno));
    text.remove_prefix(static_cast<std::size_t>(count));
  }
  return {};
}

std::optional<ExecNote> Joblog::note() const {
  if (!has_note_) return std::nullopt;
  std::ifstream file(note_path());
  ExecNote note;
  std::string word;
  if (!(file >> note.batch >> note.rows >> word)) return std::nullopt;
  const auto* const found = std::ranges::find(kResumeWords, word);
  if (found == kResumeWords.end()) return std::nullopt;
  note.resume = static_cast<ExecResume>(found - kResumeWords.begin());
  return note;
}

Expected<void> Joblog::write_note(const ExecNote& note) const {
  if (!has_note_) return {};
  const std::string temporary = note_path() + ".new";
  {
    std::ofstream file(temporary, std::ios::trunc);
    file << note.batch << ' ' << note.rows << ' ' << kResumeWords[static_cast<std::size_t>(note.resume)]
         << '\n';
    file.close();
    if (!file) return client_error(Kind::kLocal, temporary + ": cannot be written");
  }
  if (std::rename(temporary.c_str(), note_path().c_str()) != 0) return fault(std::strerror(errno));
  return {};
}

void Joblog::remove_note() const {
  if (has_note_) std::remove(note_path().c_str());
}

}  // namespace locksley::cli
