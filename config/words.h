#pragma once

#include <array>
#include <string_view>

#include "config/config.h"

namespace locksley::config {

// The words for the values of each enumeration. Reading, writing and messages use these tables.
template <class E>
struct Word {
  std::string_view word;
  E value;
};

constexpr auto words(Share) { return std::array{Word{"time", Share::kTime}, Word{"jobs", Share::kJobs}}; }

constexpr auto words(Durability) {
  return std::array{Word{"fsync", Durability::kFsync}, Word{"async", Durability::kAsync},
                    Word{"none", Durability::kNone}};
}

constexpr auto words(StoreEngine) {
  return std::array{Word{"rocksdb", StoreEngine::kRocksdb}, Word{"postgresql", StoreEngine::kPostgresql}};
}

constexpr auto words(Replication) {
  return std::array{Word{"required", Replication::kRequired}, Word{"provider", Replication::kProvider},
                    Word{"none", Replication::kNone}};
}

constexpr auto words(Input) {
  return std::array{Word{"stdin", Input::kStdin}, Word{"argument", Input::kArgument},
                    Word{"file", Input::kFile}};
}

constexpr auto words(Isolate) { return std::array{Word{"false", Isolate::kNo}, Word{"true", Isolate::kYes}}; }

constexpr auto words(CoreDumps) {
  return std::array{Word{"false", CoreDumps::kNo}, Word{"true", CoreDumps::kYes}};
}

constexpr auto words(AuditLines) {
  return std::array{Word{"false", AuditLines::kNo}, Word{"true", AuditLines::kYes}};
}

constexpr auto words(Plain) {
  return std::array{Word{"false", Plain::kOnThisMachine}, Word{"true", Plain::kEverywhere}};
}

constexpr auto words(Remote) { return std::array{Word{"false", Remote::kNo}, Word{"true", Remote::kYes}}; }

constexpr auto words(Network) { return std::array{Word{"true", Network::kYes}, Word{"false", Network::kNo}}; }

constexpr auto words(Insecure) {
  return std::array{Word{"false", Insecure::kNo}, Word{"true", Insecure::kYes}};
}

constexpr auto words(CommandGroup) {
  return std::array{Word{"submit", CommandGroup::kSubmit}, Word{"read", CommandGroup::kRead},
                    Word{"control", CommandGroup::kControl}, Word{"admin", CommandGroup::kAdmin},
                    Word{"work", CommandGroup::kWork}};
}

constexpr auto words(ClientCertificates) {
  return std::array{Word{"required", ClientCertificates::kRequired},
                    Word{"optional", ClientCertificates::kOptional}};
}

constexpr auto words(HttpLogin) {
  return std::array{Word{"none", HttpLogin::kNone}, Word{"users", HttpLogin::kUsers}};
}

constexpr auto words(LogLevel) {
  return std::array{Word{"trace", LogLevel::kTrace}, Word{"debug", LogLevel::kDebug},
                    Word{"info", LogLevel::kInfo}, Word{"warn", LogLevel::kWarn},
                    Word{"error", LogLevel::kError}};
}

constexpr auto words(LogFormat) {
  return std::array{Word{"text", LogFormat::kText}, Word{"json", LogFormat::kJson}};
}

// How a Limit is written that follows from another value.
inline constexpr std::string_view kAuto = "auto";

template <class E>
concept Worded = requires(E value) { words(value); };

template <Worded E>
constexpr std::string_view word_of(E value) {
  for (const Word<E>& word : words(value)) {
    if (word.value == value) return word.word;
  }
  return "?";
}

}  // namespace locksley::config
