#include "daemon/cli/text/ordered_outputs.h"

#include <unistd.h>

namespace locksley::cli {

using client::ResultRow;

void OrderedOutputs::add(const ResultRow& row) {
  if (row.index < next_) return;
  if (row.index == next_ && (window_.empty() || !window_.front().present)) {
    show_(row);
    ++next_;
    if (!window_.empty()) window_.pop_front();
  } else {
    const std::uint64_t place = row.index - next_;
    if (place >= window_.size()) window_.resize(place + 1);
    if (!window_[place].present) hold(window_[place], row);
  }
  while (!window_.empty() && window_.front().present) {
    show(next_, window_.front());
    window_.pop_front();
    ++next_;
  }
}

void OrderedOutputs::finish() {
  for (; !window_.empty(); window_.pop_front(), ++next_) {
    if (window_.front().present) show(next_, window_.front());
  }
}

void OrderedOutputs::hold(Held& held, const ResultRow& row) {
  held.present = true;
  held.status = row.status;
  held.length = row.output.size();
  ++held_;
  if (in_memory_ + row.output.size() > memory_bytes_ && write_to_file(held, row.output)) return;
  held.output = row.output;
  in_memory_ += row.output.size();
}

bool OrderedOutputs::write_to_file(Held& held, std::string_view output) {
  if (file_ == nullptr) file_.reset(std::tmpfile());
  if (file_ == nullptr) return false;
  for (std::size_t done = 0; done < output.size();) {
    const ssize_t count = ::pwrite(::fileno(file_.get()), output.data() + done, output.size() - done,
                                   static_cast<off_t>(file_end_ + done));
    if (count <= 0) return false;
    done += static_cast<std::size_t>(count);
  }
  held.in_file = true;
  held.offset = file_end_;
  file_end_ += output.size();
  ++in_file_;
  return true;
}

void OrderedOutputs::show(std::uint64_t index, Held& held) {
  --held_;
  if (!held.in_file) {
    in_memory_ -= held.output.size();
    show_({index, held.status, held.output});
    return;
  }
  std::string output(held.length, '\0');
  std::size_t done = 0;
  while (done < output.size()) {
    const ssize_t count = ::pread(::fileno(file_.get()), output.data() + done, output.size() - done,
                                  static_cast<off_t>(held.offset + done));
    if (count <= 0) break;
    done += static_cast<std::size_t>(count);
  }
  if (done == output.size()) {
    show_({index, held.status, output});
  } else {
    show_({index, "lost", "the temporary file that held its output cannot be read"});
  }
  // All outputs in the file have been written: it starts again, empty.
  if (--in_file_ == 0 && ::ftruncate(::fileno(file_.get()), 0) == 0) file_end_ = 0;
}

}  // namespace locksley::cli
