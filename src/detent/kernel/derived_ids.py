"""Ids that are derived from others: of a task's jobs and a job's runs, numbered from 1. Pure."""


def job_of_task(task_id: str, number: int) -> str:
    return f"{task_id}-j{number}"


def jobs_of_task(task_id: str, count: int) -> list[str]:
    """Return the ids of the first `count` jobs of a task, oldest first."""
    return [job_of_task(task_id, number) for number in range(1, count + 1)]


def run_of_job(job_id: str, number: int) -> str:
    return f"{job_id}-r{number}"
