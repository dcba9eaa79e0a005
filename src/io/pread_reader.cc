#include "io/pread_reader.h"

#include <utility>

#include "io/direct_file.h"
#include "io/pool_reader.h"

namespace sluice::io {

std::unique_ptr<Reader> make_pread_reader(const ReaderOptions& options) {
  const DirectFileOptions file_options{.try_direct = options.direct,
                                       .max_call_bytes = options.max_call_bytes,
                                       .system = options.system};
  auto maker = [file_options](File file, Drive& drive) -> Result<std::unique_ptr<PieceFile>> {
    return DirectFile::make(std::move(file), drive, file_options);
  };
  return std::make_unique<PoolReader>(maker, options);
}

}  // namespace sluice::io
