#include "daemon/handlers/sha256.h"

#include <openssl/evp.h>

#include <array>
#include <stdexcept>

namespace locksley::daemon {
namespace {

constexpr std::size_t kDigestBytes = 32;
constexpr std::size_t kPieceBytes = 1 << 20;  // between two checks for cancellation: about a millisecond

struct FreeContext {
  void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
};

// The calling thread's context, created at its first digest and kept: a context costs two
// allocations.
EVP_MD_CTX* thread_context() {
  thread_local const std::unique_ptr<EVP_MD_CTX, FreeContext> context(EVP_MD_CTX_new());
  return context.get();
}

void require(int result) {
  if (result != 1) throw std::runtime_error("SHA-256 failed in the cryptographic library");
}

}  // namespace

Sha256::Sha256() {
  EVP_MD* algorithm = EVP_MD_fetch(nullptr, "SHA256", nullptr);
  if (!algorithm) throw std::runtime_error("the cryptographic library has no SHA-256");
  algorithm_ =
      std::shared_ptr<const EVP_MD>(algorithm, [algorithm](const EVP_MD*) { EVP_MD_free(algorithm); });
}

void Sha256::operator()(JobContext& context, std::string_view payload) const {
  EVP_MD_CTX* const digest = thread_context();
  if (!digest) throw std::bad_alloc();
  require(EVP_DigestInit_ex2(digest, static_cast<const EVP_MD*>(algorithm_.get()), nullptr));
  while (!payload.empty()) {
    const std::string_view piece = payload.substr(0, kPieceBytes);
    require(EVP_DigestUpdate(digest, piece.data(), piece.size()));
    payload.remove_prefix(piece.size());
    if (!payload.empty() && context.should_stop()) return context.give_up();
  }
  std::array<unsigned char, kDigestBytes> bytes;
  require(EVP_DigestFinal_ex(digest, bytes.data(), nullptr));

  constexpr char kDigits[] = "0123456789abcdef";
  char* out = context.write_space(2 * kDigestBytes);
  for (const unsigned char byte : bytes) {
    *out++ = kDigits[byte >> 4];
    *out++ = kDigits[byte & 15];
  }
}

}  // namespace locksley::daemon
