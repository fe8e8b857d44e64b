// Jobs over beanstalkd: the client puts payloads into the tube `jobs`, workers reserve them, put
// them into the tube `results` and delete them, and the client reserves and deletes those. Both go
// in bursts, each sent with one write:
//
//   client: put ...              (as many as the window has room for), delete ...   and reserves of `results`
//   worker: put and delete ...   (what the last burst brought)                      and reserves of `jobs`
//
// The reserves are --depth in number: the first waits for a job, the others (reserve-with-timeout
// 0) take what is there.

#include "tests/bench/wire/peer.h"

namespace locksley::wire {
namespace {

class Beanstalk {
 public:
  explicit Beanstalk(std::uint16_t port) : stream_(port) {}

  // Puts go to one tube, reserves come from another.
  void use(std::string_view puts, std::string_view reserves) {
    stream_ << "use " << puts << "\r\nwatch " << reserves << "\r\nignore default\r\n";
    stream_.flush();
    expect("USING ");
    expect("WATCHING ");
    expect("WATCHING ");
  }

  void put(std::string_view payload) {
    stream_ << "put 0 0 60 " << payload.size() << "\r\n" << payload << "\r\n";
    ++puts_;
  }
  void remove(std::uint64_t id) {
    stream_ << "delete " << id << "\r\n";
    ++deletes_;
  }

  struct Job {
    std::uint64_t id;
    std::string payload;
  };
  // Sends what was asked for, and reserves up to `depth` jobs, at least one unless `depth` is 0.
  std::vector<Job> reserve(std::uint64_t depth) {
    for (std::uint64_t i = 0; i < depth; ++i)
      stream_ << (i == 0 ? "reserve\r\n" : "reserve-with-timeout 0\r\n");
    stream_.flush();
    std::vector<Job> jobs;
    for (std::uint64_t left = puts_ + deletes_ + depth; left > 0; --left) take_reply(jobs);
    if (puts_ != 0 || deletes_ != 0)
      throw std::runtime_error("beanstalkd did not answer each put and delete");
    return jobs;
  }

  void shut_down() { stream_.shut_down(); }

 private:
  void expect(std::string_view start) {
    const std::string_view line = stream_.line();
    if (!line.starts_with(start)) throw std::runtime_error("beanstalkd answered: " + std::string(line));
  }
  void take_reply(std::vector<Job>& jobs) {
    constexpr std::string_view kReserved = "RESERVED ";
    const std::string_view line = stream_.line();
    if (line.starts_with("INSERTED ")) {
      --puts_;
    } else if (line == "DELETED") {
      --deletes_;
    } else if (line.starts_with(kReserved)) {
      const std::size_t space = line.find(' ', kReserved.size());
      const auto id = to_number<std::uint64_t>(line.substr(kReserved.size(), space - kReserved.size()));
      const auto length = to_number<std::size_t>(line.substr(space + 1));
      jobs.push_back({id, std::string(stream_.bytes(length))});
      stream_.bytes(2);  // CRLF
    } else if (line != "TIMED_OUT") {
      throw std::runtime_error("beanstalkd answered: " + std::string(line));
    }
  }

  Stream stream_;
  std::uint64_t puts_ = 0;     // of which the reply is still to come
  std::uint64_t deletes_ = 0;  // the same
};

void work(Beanstalk& beanstalk, const Plan& plan) {
  beanstalk.use("results", "jobs");
  for (;;) {
    for (const Beanstalk::Job& job : beanstalk.reserve(plan.depth)) {
      beanstalk.put(job.payload);
      beanstalk.remove(job.id);
    }
  }
}

void run(const Plan& plan) {
  const Workers<Beanstalk> workers(plan, work);
  Beanstalk beanstalk(plan.port);
  beanstalk.use("jobs", "results");
  Results results(plan.jobs);
  Figures figures(plan);
  std::uint64_t sent = 0;
  figures.begin();
  while (!results.are_complete()) {
    const auto began = Clock::now();
    for (; sent < plan.jobs && sent - results.received() < plan.window; ++sent)
      beanstalk.put(Payload(sent).view());
    const auto jobs = beanstalk.reserve(plan.depth);
    if (plan.latency) figures.add(Clock::now() - began);
    for (const Beanstalk::Job& job : jobs) {
      results.add(job.payload);
      beanstalk.remove(job.id);
    }
  }
  figures.end();
  beanstalk.reserve(0);  // the last deletes
  figures.print();
}

}  // namespace
}  // namespace locksley::wire

int main(int argc, char** argv) { return locksley::wire::run_peer(argc, argv, locksley::wire::run); }
