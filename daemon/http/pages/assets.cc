#include "daemon/http/pages/assets.h"

#include <string>

namespace locksley::daemon {
namespace {

HttpReply asset_page(const Asset& asset, const HttpRequest& request) {
  HttpReply reply{.content_type = std::string(asset.content_type),
                  .body = std::string(asset.bytes),
                  .etag = std::string(asset.etag)};
  if (request.if_none_match.find(asset.etag) != std::string_view::npos) {
    reply.status = HttpStatus::kNotModified;
  }
  return reply;
}

}  // namespace

void add_assets(Router& router, std::span<const Asset> assets) {
  for (const Asset& asset : assets) {
    router.get(std::string(asset.path), Access::kUsers,
               [&asset](const HttpRequest& request) { return asset_page(asset, request); });
  }
}

}  // namespace locksley::daemon
