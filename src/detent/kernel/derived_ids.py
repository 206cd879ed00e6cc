"""Ids that follow from others, by number from 1: of a task's jobs, of a job's runs. Pure."""


def job_of_task(task_id: str, number: int) -> str:
    return f"{task_id}-j{number}"


def jobs_of_task(task_id: str, count: int) -> list[str]:
    """The ids of as many jobs as the task has had, oldest first."""
    return [job_of_task(task_id, number) for number in range(1, count + 1)]


def run_of_job(job_id: str, number: int) -> str:
    return f"{job_id}-r{number}"
