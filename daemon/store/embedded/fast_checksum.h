// The checksums of RocksDB's log, computed by instructions of the processor.
#pragma once

namespace locksley::daemon {

// Whether RocksDB calls the function of fast_checksum.cc in place of its own. If not, all works as
// well, but in large batches the checksums take a third of the time of the store's writer. Any
// thread; asks the dynamic linker. Nothing blocks or fails.
bool has_fast_checksums();

}  // namespace locksley::daemon
