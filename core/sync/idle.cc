#include "core/sync/idle.h"

namespace locksley {

template class BasicIdle<StdAtomics>;

}  // namespace locksley
