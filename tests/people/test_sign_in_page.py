"""Signing in in a real browser, through the page of the dashboard and the provider's pages."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.dashboard.conftest import PATIENCE_MS
from tests.dashboard.conftest import browser as browser
from tests.gateway.installation import Installation
from tests.people.provider import People


@pytest.fixture
def page(browser: Browser, signed: People) -> Iterator[Page]:
    context = browser.new_context()
    context.set_default_timeout(PATIENCE_MS)
    yield context.new_page()
    context.close()


def enter(page: Page, gateway: Installation, login: str) -> None:
    """Sign in from the page of the dashboard."""
    page.goto(gateway.url)
    page.get_by_role("link", name="Sign in with Example").click()
    page.get_by_placeholder("Enter any login").fill(login)
    page.get_by_placeholder("and password").fill("x")
    page.get_by_role("button", name="Sign-in").click()
    page.get_by_role("button", name="Continue").click()


def test_a_person_signs_in_and_out(page: Page, signed: People) -> None:
    enter(page, signed.gateway, "ada")
    expect(page.get_by_role("heading", name="Inbox")).to_be_visible()
    assert page.url == f"{signed.gateway.url}/"
    page.goto(f"{signed.gateway.url}/access")
    line = page.get_by_role("table", name="Users").locator('tr[data-id="ada@example.com"]')
    expect(line).to_contain_text("admin")
    expect(page.get_by_role("heading", name="ada@example.com")).to_be_visible()
    line.get_by_role("button", name="Remove").click()
    expect(page.get_by_text("This browser is not signed in.")).to_be_visible()


def test_a_person_changes_the_project(page: Page, signed: People) -> None:
    client = signed.gateway.client()
    for project in ("payments", "shop"):
        client.post(
            "/api/tasks", json={"intent": "runQA", "project": project, "title": f"In {project}"}
        )
    enter(page, signed.gateway, "rita")
    expect(page.get_by_role("heading", name="Inbox")).to_be_visible()
    page.goto(f"{signed.gateway.url}/board")
    expect(page.get_by_text("In payments")).to_be_visible()
    expect(page.get_by_text("In shop")).to_have_count(0)
    page.goto(f"{signed.gateway.url}/access")
    expect(page.get_by_role("heading", name="Tokens")).to_have_count(0)
    page.get_by_label("Project").select_option("shop")
    expect(page.get_by_text("Scopes: read", exact=True)).to_be_visible()
    page.goto(f"{signed.gateway.url}/board")
    expect(page.get_by_text("In shop")).to_be_visible()
    expect(page.get_by_text("In payments")).to_have_count(0)


def test_a_person_without_a_role_reads_why(page: Page, signed: People) -> None:
    enter(page, signed.gateway, "otto")
    expect(page.get_by_text("you have no role here")).to_be_visible()
    expect(page.get_by_text("This browser is not signed in.")).to_be_visible()
    assert page.url == f"{signed.gateway.url}/"
