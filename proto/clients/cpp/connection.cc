#include "proto/clients/cpp/connection.h"

#include <utility>

#include "proto/clients/cpp/version.h"
#include "proto/command_writer.h"

namespace locksley::client {

using Kind = ClientError::Kind;

ClientError refused(std::string_view error_reply) {
  return {Kind::kRefused, std::string(error_reply.substr(0, error_reply.find(' '))),
          std::string(error_reply)};
}

std::unexpected<ClientError> Connection::protocol_error(std::string_view what) {
  close();
  return client_error(Kind::kProtocol, peer() + ": not what Locksley answers: " + std::string(what));
}

std::unexpected<ClientError> Connection::broken_reply() {
  if (!speaks_http_) return protocol_error(reader_->error_message());
  close();
  return client_error(
      Kind::kProtocol,
      peer() +
          ": this port speaks HTTP, for the dashboard: clients connect to the port `listen.port`, 7770 "
          "unless it is configured otherwise, and workers to `workers.port`, 7771");
}

Expected<void> Connection::open(const Address& address, std::string_view name, Deadline deadline) {
  reader_ = std::make_unique<proto::ReplyReader>();
  has_received_ = speaks_http_ = false;
  if (auto connected = link_.connect(address, deadline); !connected) return connected;

  proto::OutputBuffer greeting;
  proto::CommandWriter writer(greeting);
  const bool with_credentials = !address.user.empty() || !address.password.empty();
  writer.begin(2 + (with_credentials ? 3U : 0U) + (name.empty() ? 0U : 2U));
  writer.argument("HELLO");
  writer.argument("3");
  if (with_credentials) {
    writer.argument("AUTH");
    writer.argument(address.user.empty() ? std::string_view("default") : address.user);
    writer.argument(address.password);
  }
  if (!name.empty()) {
    writer.argument("SETNAME");
    writer.argument(name);
  }
  writer.command({"CLIENT", "SETINFO", "LIB-NAME", kLibraryName});
  writer.command({"CLIENT", "SETINFO", "LIB-VER", kLibraryVersion});
  const std::string bytes = greeting.to_string();
  send(bytes);

  auto hello = read(deadline);
  if (hello && hello->is_error()) {
    close();
    ClientError error = refused(hello->text);
    error.message = peer() + ": " + error.message;
    return std::unexpected(std::move(error));
  }
  if (hello && (!hello->is_aggregate() || hello->find("proto") == nullptr))
    return protocol_error("the reply to HELLO");
  // The replies to CLIENT SETINFO are read, but an error in them does not matter.
  for (int i = 0; hello && i < 2; ++i) hello = read(deadline);
  if (!hello) return std::unexpected(std::move(hello.error()));
  return {};
}

Expected<void> Connection::receive(Deadline deadline, std::size_t bytes) {
  const auto space = reader_->prepare(bytes);
  const auto count = link_.receive(space, deadline);
  if (!count) return std::unexpected(count.error());
  if (!std::exchange(has_received_, true)) {
    const std::string_view first(reinterpret_cast<const char*>(space.data()), *count);
    speaks_http_ = first.starts_with("HTTP/");
  }
  reader_->commit(*count);
  return {};
}

Expected<proto::Reply> Connection::read(Deadline deadline) {
  proto::Reply reply;
  for (;;) {
    const auto status = reader_->next(reply);
    if (status == proto::ReadStatus::kComplete && reply.type != proto::Reply::Type::kPush) return reply;
    if (status == proto::ReadStatus::kError) return broken_reply();
    if (status == proto::ReadStatus::kNeedMore) {
      if (auto received = receive(deadline); !received) return std::unexpected(std::move(received.error()));
    }
  }
}

}  // namespace locksley::client
