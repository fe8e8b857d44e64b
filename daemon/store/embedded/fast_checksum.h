// The checksums of RocksDB's log, computed by instructions of the processor.
#pragma once

namespace locksley::daemon {

// Whether RocksDB calls the function of fast_checksum.cc in place of its own. If not, all works as well, but checksums take as
// much time of the store's writer as all else that it does. Any thread; asks the dynamic linker.
bool has_fast_checksums();

}  // namespace locksley::daemon
