// A pipe between a test and a part of the client program.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <string_view>
#include <utility>

namespace locksley::cli {

// A pipe whose writing end the test fills.
struct Pipe {
  int ends[2];
  Pipe() { EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0); }
  ~Pipe() {
    ::close(ends[0]);
    close_writer();
  }
  void write(std::string_view bytes) {
    EXPECT_EQ(::write(ends[1], bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  }
  void close_writer() {
    if (ends[1] >= 0) ::close(std::exchange(ends[1], -1));
  }
};

}  // namespace locksley::cli
