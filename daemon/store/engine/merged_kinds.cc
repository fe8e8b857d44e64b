#include "daemon/store/engine/merged_kinds.h"

#include <algorithm>
#include <utility>

#include "daemon/store/engine/key.h"

namespace locksley::daemon {

MergedKinds::MergedKinds(std::vector<std::unique_ptr<RowCursor>> kinds)
    : kinds_(std::move(kinds)), batches_(kinds_.size()) {
  for (std::size_t kind = 0; kind < kinds_.size(); ++kind) look_at(kind);
  choose();
}

void MergedKinds::next() {
  kinds_[at_]->next();
  look_at(at_);
  choose();
}

void MergedKinds::look_at(std::size_t kind) {
  const RowCursor& row = *kinds_[kind];
  batches_[kind] = row.is_valid() ? batch_in(row.key()) : kEnd;
  if (!row.is_valid() && status_) status_ = row.status();
}

// Among cursors at the same batch it chooses the first, which is that of the lowest kind. There are
// few kinds.
void MergedKinds::choose() {
  at_ = static_cast<std::size_t>(std::ranges::min_element(batches_) - batches_.begin());
}

}  // namespace locksley::daemon
