// The version of the build. Constants.
#pragma once

namespace locksley::daemon {

extern const char* const kBuildVersion;
extern const char* const
    kBuildRevision;  // of git, "-dirty" appended if the tree had changes; "unknown" outside a repository

}  // namespace locksley::daemon
