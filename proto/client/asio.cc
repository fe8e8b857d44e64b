// The one translation unit that holds Asio's implementation; every other file sees its declarations only
// (ASIO_SEPARATE_COMPILATION). No TLS: asio/ssl/impl/src.hpp joins it here when the protocol gets it.
#include <asio/impl/src.hpp>
