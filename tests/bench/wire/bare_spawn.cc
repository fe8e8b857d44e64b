// The floor under commands.py: a program started again and again, so many at a time, and nothing
// else done.
//
//   bare_spawn COUNT AT_A_TIME PROGRAM    ("true" is given its number as its argument, like a job its
//   payload)
//
// Measured is the whole: posix_spawn() with the standard streams as they are, and waitpid(). Not in
// it: pipes for the outputs, their reading, process groups, limits, a request over a socket.
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fputs("usage: bare_spawn COUNT AT_A_TIME PROGRAM\n", stderr);
    return 64;
  }
  const long count = std::atol(argv[1]);
  const long at_a_time = std::atol(argv[2]);
  long running = 0;
  for (long started = 0; started < count || running != 0;) {
    if (started < count && running < at_a_time) {
      std::string number = std::to_string(started);
      char* const arguments[] = {argv[3], number.data(), nullptr};
      pid_t pid = -1;
      if (::posix_spawn(&pid, argv[3], nullptr, nullptr, arguments, environ) != 0) {
        std::perror("posix_spawn");
        return 1;
      }
      ++started;
      ++running;
      continue;
    }
    int status = 0;
    if (::waitpid(-1, &status, 0) > 0) --running;
    if (status != 0) {
      std::fputs("a program failed\n", stderr);
      return 1;
    }
  }
  return 0;
}
