05:00:38 backup/nightly       new  by kubectl-create
05:00:38 backup/nightly       Running
05:00:38 backup/nightly       not Ready: JobRunning: the job nightly runs  by
             backup-operator
05:00:38 job/nightly          new: backup:1  by backup-operator
05:00:38 pod/nightly-tgtt5    on node-1 → running and ready +0.3s
05:00:39 pod/nightly-tgtt5    succeeded
05:00:39 job/nightly          complete in 1.0s: 1 of 1 succeeded
05:00:39 backup/nightly       Completed
05:00:39 backup/nightly       Ready: JobComplete: 1.2 GB in s3://backups  by
             backup-operator
05:00:40 backup/nightly       schedule: "0 2 * * *" → "every night"  by kubectl-
             edit
05:00:40 backup/nightly       ! Failed
05:00:40 backup/nightly       ! not Ready: InvalidSchedule: expected 5 fields,
             found 2: every night
05:00:41 backup/nightly       schedule: "every night" → "0 3 * * *"  by kubectl-
             edit
05:00:41 backup/nightly       Completed
05:00:41 backup/nightly       Ready: JobComplete: 1.2 GB in s3://backups  by
             backup-operator
