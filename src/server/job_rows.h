// Jobs as rows of the database.
#pragma once

#include "server/job_store.h"

namespace sluice::server {

/// What a query has to select for read_job().
inline constexpr const char* kJobColumns =
    "id, batch, custom_id, endpoint, body, status, attempts, progress, created, http_status, "
    "result";

inline StoredJob read_job(const Statement& row) {
  StoredJob job;
  job.id = row.text(0);
  job.batch = row.text(1);
  job.custom_id = row.text(2);
  job.endpoint = row.text(3);
  job.body = row.text(4);
  job.status = row.text(5);
  job.attempts = row.number(6);
  job.progress = row.number(7);
  job.created = row.number(8);
  job.http_status = static_cast<int>(row.number(9));
  job.result = row.text(10);
  return job;
}

}  // namespace sluice::server
