#pragma once

#include <vector>

#include "config/config.h"
#include "config/document.h"
#include "config/origins.h"
#include "config/problem.h"

namespace locksley::config {

struct Reading {
  Config config;  // defaults for keys that are missing or wrong
  Origins origins;
  std::vector<Problem> problems;  // unknown keys, wrong types, values out of bounds; they name no file
};

// Fills a Config from a document, by the list of keys in schema.h.
Reading read_config(const Node& root);

}  // namespace locksley::config
