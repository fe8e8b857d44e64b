// Jobs over gearmand, by its binary protocol: foreground jobs, so that gearmand itself carries the
// results to the client.
//
//   client: keeps --window SUBMIT_JOBs underway; one that completes makes room for the next
//   worker: keeps up to --depth GRAB_JOBs underway, and answers in bursts. Each job that it is
//           given lets it ask for one more at a time than before, each NO_JOB for one less. At none
//           it announces its rest (PRE_SLEEP) and waits for the NOOP that wakes it. Without this
//           growth gearmand spends its time on NO_JOBs when the worker runs dry

#include "tests/bench/wire/peer.h"

namespace locksley::wire {
namespace {

using namespace std::string_view_literals;

enum class Type : std::uint32_t {
  kCanDo = 1,
  kPreSleep = 4,
  kNoop = 6,
  kSubmitJob = 7,
  kJobCreated = 8,
  kGrabJob = 9,
  kNoJob = 10,
  kJobAssign = 11,
  kWorkComplete = 13,
};

class Gearman {
 public:
  struct Packet {
    Type type;
    std::string_view body;  // until the next one is read
  };

  explicit Gearman(std::uint16_t port) : stream_(port) {}

  void send(Type type, std::string_view body = {}) {
    write_head(type, body.size());
    stream_ << body;
  }
  // Two arguments have a zero byte between them.
  void send(Type type, std::string_view first, std::string_view second) {
    write_head(type, first.size() + 1 + second.size());
    stream_ << first << "\0"sv << second;
  }
  void flush() { stream_.flush(); }

  Packet read() {
    const std::string_view head = stream_.bytes(12);
    if (!head.starts_with("\0RES"sv)) throw std::runtime_error("gearmand did not answer with a packet");
    const auto type = static_cast<Type>(number(head.substr(4)));
    return {type, stream_.bytes(number(head.substr(8)))};
  }
  bool has_input() const { return stream_.has_input(); }

  void shut_down() { stream_.shut_down(); }

 private:
  void write_head(Type type, std::size_t size) {
    stream_ << "\0REQ"sv;
    write_number(static_cast<std::uint32_t>(type));
    write_number(static_cast<std::uint32_t>(size));
  }
  void write_number(std::uint32_t number) {
    const std::uint32_t big_endian = htonl(number);
    stream_ << std::string_view(reinterpret_cast<const char*>(&big_endian), sizeof big_endian);
  }
  static std::uint32_t number(std::string_view bytes) {
    std::uint32_t big_endian = 0;
    std::memcpy(&big_endian, bytes.data(), sizeof big_endian);
    return ntohl(big_endian);
  }

  Stream stream_;
};

[[noreturn]] void fail_about(const Gearman::Packet& packet) {
  throw std::runtime_error("gearmand sent a packet of type " +
                           std::to_string(static_cast<std::uint32_t>(packet.type)) +
                           " that was not due: " + std::string(packet.body));
}

void work(Gearman& gearman, const Plan& plan) {
  gearman.send(Type::kCanDo, "echo");
  gearman.send(Type::kGrabJob);
  for (std::uint64_t grabs = 1;;) {
    if (!gearman.has_input()) gearman.flush();
    const auto packet = gearman.read();
    if (packet.type == Type::kJobAssign) {
      const std::size_t handle = packet.body.find('\0');
      const std::size_t function = packet.body.find('\0', handle + 1);
      gearman.send(Type::kWorkComplete, packet.body.substr(0, handle), packet.body.substr(function + 1));
      gearman.send(Type::kGrabJob);
      if (grabs < plan.depth) {
        gearman.send(Type::kGrabJob);
        ++grabs;
      }
    } else if (packet.type == Type::kNoJob) {
      if (--grabs == 0) gearman.send(Type::kPreSleep);
    } else if (packet.type == Type::kNoop && grabs == 0) {
      gearman.send(Type::kGrabJob);
      grabs = 1;
    } else {
      fail_about(packet);
    }
  }
}

// Of the packets that come, takes the next result.
std::string_view next_result(Gearman& gearman) {
  for (;;) {
    const auto packet = gearman.read();
    if (packet.type == Type::kWorkComplete) return packet.body.substr(packet.body.find('\0') + 1);
    if (packet.type != Type::kJobCreated) fail_about(packet);
  }
}

void run(const Plan& plan) {
  const Workers<Gearman> workers(plan, work);
  Gearman gearman(plan.port);
  Results results(plan.jobs);
  Figures figures(plan);
  std::uint64_t sent = 0;
  figures.begin();
  while (!results.are_complete()) {
    const auto began = Clock::now();
    for (; sent < plan.jobs && sent - results.received() < plan.window; ++sent) {
      gearman.send(Type::kSubmitJob, "echo\0"sv, Payload(sent).view());
    }
    gearman.flush();
    do {
      results.add(next_result(gearman));
    } while (gearman.has_input() && results.received() < sent);
    if (plan.latency) figures.add(Clock::now() - began);
  }
  figures.end();
  figures.print();
}

}  // namespace
}  // namespace locksley::wire

int main(int argc, char** argv) { return locksley::wire::run_peer(argc, argv, locksley::wire::run); }
