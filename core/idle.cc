#include "core/idle.h"

namespace locksley {

template class BasicIdle<StdAtomics>;

}  // namespace locksley
