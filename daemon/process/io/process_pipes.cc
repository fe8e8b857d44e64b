#include "daemon/process/io/process_pipes.h"

#include <fcntl.h>
#include <sys/mman.h>

#include <array>
#include <cerrno>
#include <system_error>

namespace locksley::daemon {
namespace {

std::unexpected<std::string> no_descriptor() {
  return std::unexpected("cannot open a descriptor: " + std::generic_category().message(errno));
}

void set_nonblocking(int descriptor) { ::fcntl(descriptor, F_SETFL, O_NONBLOCK); }

}  // namespace

std::expected<Pipe, std::string> make_pipe() {
  std::array<int, 2> ends;
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return no_descriptor();
  return Pipe{Descriptor(ends[0]), Descriptor(ends[1])};
}

std::expected<Pipe, std::string> make_output_pipe() {
  auto pipe = make_pipe();
  if (pipe) set_nonblocking(pipe->read.get());
  return pipe;
}

std::expected<Pipe, std::string> make_input_pipe() {
  auto pipe = make_pipe();
  if (pipe) set_nonblocking(pipe->write.get());
  return pipe;
}

std::expected<Descriptor, std::string> make_memory_file(std::string_view payload) {
  Descriptor file(::memfd_create("locksley-payload", MFD_CLOEXEC));
  if (file.get() < 0) return no_descriptor();
  for (std::size_t at = 0; at < payload.size();) {
    const ssize_t wrote =
        ::pwrite(file.get(), payload.data() + at, payload.size() - at, static_cast<off_t>(at));
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) {
      return std::unexpected("cannot copy the payload for the process: " +
                             std::generic_category().message(errno));
    }
    at += static_cast<std::size_t>(wrote);
  }
  return file;
}

std::expected<Descriptor, std::string> open_null() {
  Descriptor file(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (file.get() < 0) return no_descriptor();
  return file;
}

void OutputReader::begin(Descriptor descriptor, OnBytes on_bytes, std::function<void()> on_end) {
  close();
  alive_ = std::make_shared<char>();
  on_bytes_ = std::move(on_bytes);
  on_end_ = std::move(on_end);
  descriptor_.assign(descriptor.release());
  wait();
}

void OutputReader::wait() {
  descriptor_.async_wait(ProcessDescriptor::wait_read,
                         [this, alive = std::weak_ptr(alive_)](const asio::error_code& error) {
                           if (error || alive.expired()) return;
                           const Found found = read_some();
                           if (alive.expired()) return;
                           if (found == Found::kEnd) {
                             close();
                             if (on_end_) on_end_();
                           } else {
                             wait();
                           }
                         });
}

OutputReader::Found OutputReader::read_some() {
  // Bounds the reads of one call, so that a process that writes without end does not hold up the
  // others.
  constexpr int kMostReads = 4;
  static thread_local std::array<char, 64 * 1024> space;
  for (int i = 0; i < kMostReads; ++i) {
    const ssize_t got = ::read(descriptor_.native_handle(), space.data(), space.size());
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return Found::kNothing;
    if (got <= 0) return Found::kEnd;
    const std::weak_ptr alive = alive_;
    if (!on_bytes_({space.data(), static_cast<std::size_t>(got)}) || alive.expired()) return Found::kEnd;
    if (static_cast<std::size_t>(got) < space.size()) return Found::kNothing;
  }
  return Found::kMore;
}

void OutputReader::finish() {
  if (!descriptor_.is_open()) return;
  // A pipe holds a megabyte at most. Any process that can still write to it is about to be killed.
  constexpr int kMostTimes = 8;
  const std::weak_ptr alive = alive_;
  for (int i = 0; i < kMostTimes && read_some() == Found::kMore; ++i) {
  }
  if (!alive.expired()) close();
}

void OutputReader::close() {
  alive_.reset();
  asio::error_code ignored;
  descriptor_.close(ignored);
}

void TextTail::add(std::string_view bytes) {
  text_ += bytes;
  if (text_.size() <= 2 * kMost) return;
  text_.erase(0, text_.size() - kMost);
  is_cut_ = true;
}

std::string TextTail::take() {
  while (!text_.empty() && static_cast<unsigned char>(text_.back()) <= ' ') text_.pop_back();
  if (text_.size() > kMost) {
    text_.erase(0, text_.size() - kMost);
    is_cut_ = true;
  }
  std::string result = is_cut_ ? "…" + text_ : std::move(text_);
  text_.clear();
  is_cut_ = false;
  return result;
}

}  // namespace locksley::daemon
