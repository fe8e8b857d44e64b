#include "daemon/cli/text/json.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "daemon/cli/text/utf8.h"

namespace locksley::cli {
namespace {

using Json = nlohmann::ordered_json;
using proto::Reply;

// Only strings have characters that a terminal may obey, so all of them can be escaped in the whole
// text.
std::string text_of(const Json& json) {
  const std::string text = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  std::string out;
  std::size_t done = 0;
  for (std::size_t at = 0; at < text.size();) {
    if (text[at] >= 0x20 && text[at] < 0x7F) {
      ++at;
      continue;
    }
    const std::size_t length = std::max<std::size_t>(utf8_sequence(std::string_view(text).substr(at)), 1);
    const char32_t point = code_point(std::string_view(text).substr(at, length));
    if (is_control(point)) {
      out.append(text, done, at - done);
      std::array<char, 8> escape{};
      std::snprintf(escape.data(), escape.size(), "\\u%04x", static_cast<unsigned>(point));
      out += escape.data();
      done = at + length;
    }
    at += length;
  }
  return out.append(text, done);
}

Json to_json(const Reply& reply) {
  switch (reply.type) {
    case Reply::Type::kNull:
      return nullptr;
    case Reply::Type::kInteger:
      return reply.integer;
    case Reply::Type::kBoolean:
      return reply.integer != 0;
    case Reply::Type::kDouble:
      return reply.real;
    case Reply::Type::kSimple:
    case Reply::Type::kBulk:
    case Reply::Type::kVerbatim:
    case Reply::Type::kBigNumber:
      return reply.text;
    case Reply::Type::kError:
      return Json{{"error", reply.text}};
    case Reply::Type::kMap: {
      Json object = Json::object();
      for (std::size_t i = 0; i + 1 < reply.elements.size(); i += 2) {
        object[reply.elements[i].text] = to_json(reply.elements[i + 1]);
      }
      return object;
    }
    case Reply::Type::kArray:
    case Reply::Type::kPush:
      break;
  }
  Json array = Json::array();
  for (const Reply& element : reply.elements) array.push_back(to_json(element));
  return array;
}

void add_bytes(Json& object, const std::string& key, std::string_view bytes) {
  if (is_utf8(bytes)) {
    object[key] = bytes;
  } else {
    object[key + "_base64"] = base64(bytes);
  }
}

}  // namespace

std::string json_text(const Reply& reply) { return text_of(to_json(reply)); }

std::string json_text(const client::ResultRow& row, const RowNames& names) {
  Json object{{"index", row.index}};
  if (names.input) add_bytes(object, "input", *names.input);
  object["status"] = row.status;
  if (!names.file.empty()) {
    add_bytes(object, "file", names.file);
  } else {
    add_bytes(object, "output", row.output);
  }
  if (names.payload) add_bytes(object, "payload", *names.payload);
  return text_of(object);
}

std::string json_of_job(const Reply& reply) {
  Json object = Json::object();
  for (std::size_t i = 0; i + 1 < reply.elements.size(); i += 2) {
    const Reply& value = reply.elements[i + 1];
    if (value.is_string()) {
      add_bytes(object, reply.elements[i].text, value.text);
    } else {
      object[reply.elements[i].text] = to_json(value);
    }
  }
  return text_of(object);
}

std::string json_of_log(std::uint64_t offset, std::string_view bytes) {
  Json object{{"offset", offset}};
  add_bytes(object, "log", bytes);
  return text_of(object);
}

std::string json_object(const std::vector<std::pair<std::string, JsonValue>>& members) {
  Json object = Json::object();
  for (const auto& [key, value] : members) {
    std::visit([&, &name = key](const auto& one) { object[name] = one; }, value);
  }
  return text_of(object);
}

std::string base64(std::string_view bytes) {
  constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t group = 0;
    for (std::size_t j = 0; j < 3; ++j) {
      group = (group << 8) | (i + j < bytes.size() ? static_cast<unsigned char>(bytes[i + j]) : 0U);
    }
    for (std::size_t j = 0; j < 4; ++j) {
      out.push_back(i + j <= bytes.size() ? kDigits[(group >> (18 - 6 * j)) & 63U] : '=');
    }
  }
  return out;
}

}  // namespace locksley::cli
