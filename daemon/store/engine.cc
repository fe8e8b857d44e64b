#include "daemon/store/engine.h"

#include <string>

namespace locksley::daemon {

EngineDone EngineReading::visit(const RowRange& range, const Visit& visit) const {
  const std::unique_ptr<RowCursor> at = scan(range);
  for (; at->is_valid(); at->next()) {
    if (!visit(at->key(), at->value())) break;
  }
  return at->status();
}

EngineDone EngineReading::visit_prefix(Table table, std::string_view prefix, const Visit& visit) const {
  std::string end(prefix);
  while (!end.empty() && static_cast<unsigned char>(end.back()) == 0xFF) end.pop_back();
  if (!end.empty()) end.back() = static_cast<char>(static_cast<unsigned char>(end.back()) + 1);
  return this->visit({.table = table, .low = prefix, .high = end}, visit);
}

}  // namespace locksley::daemon
