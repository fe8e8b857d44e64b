// The one translation unit that holds Asio's implementation; every other file sees its declarations
// only (ASIO_SEPARATE_COMPILATION).
#include <asio/impl/src.hpp>
#include <asio/ssl/impl/src.hpp>
