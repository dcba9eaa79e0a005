#include "cli/statistics_output.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "cli/output.h"
#include "engine/statistics.h"

namespace sluice::cli {

Result<StatisticsOutput> StatisticsOutput::prepare(const ComputeOptions& options) {
  StatisticsOutput output;
  output.table_ = options.stats;
  if (options.stats_json.empty()) return output;
  output.path_ = options.stats_json;
  output.descriptor_ = ::open(output.path_.c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0666);
  if (output.descriptor_ < 0) {
    return fail(ErrorKind::usage, "--stats-json: {}: cannot be written: {}", output.path_,
                std::generic_category().message(errno));
  }
  return output;
}

StatisticsOutput::StatisticsOutput(StatisticsOutput&& other) noexcept
    : table_(other.table_),
      path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)) {}

StatisticsOutput::~StatisticsOutput() {
  if (descriptor_ < 0) return;
  struct stat status {};
  const bool is_file = ::fstat(descriptor_, &status) == 0 && S_ISREG(status.st_mode);
  if (is_file && status.st_size == 0) ::unlink(path_.c_str());  // there was nothing to tell
  ::close(descriptor_);
}

Status StatisticsOutput::write(const engine::Statistics& statistics) {
  if (table_) write_to_stderr(engine::to_table(statistics));
  if (descriptor_ < 0) return {};
  return Output(descriptor_, path_).write(engine::to_json(statistics));
}

}  // namespace sluice::cli
