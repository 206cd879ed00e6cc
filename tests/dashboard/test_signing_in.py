"""Getting in: by a one-time link, and not without one."""

import re

from playwright.sync_api import BrowserContext, expect

from tests.dashboard.conftest import sign_in
from tests.dashboard.scenes import Scene


def test_a_one_time_link_signs_in_and_leaves_the_address(
    stranger: BrowserContext, detent: Scene
) -> None:
    page = stranger.new_page()
    page.goto(detent.link())
    expect(page.get_by_role("heading", name="Inbox")).to_be_visible()
    assert page.url == f"{detent.url}/"
    (cookie,) = stranger.cookies()
    assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")
    page.reload()
    expect(page.get_by_role("heading", name="Inbox")).to_be_visible()


def test_without_a_link_nothing_is_shown(stranger: BrowserContext, detent: Scene) -> None:
    secret = detent.submit("ask", {"text": "A secret question?"}, "blocked", title="Secret title")
    page = stranger.new_page()
    asked: list[str] = []
    page.on("response", lambda answer: asked.append(f"{answer.status} {answer.url}"))
    page.goto(f"{detent.url}/inbox/{secret}")
    expect(page.get_by_text("This browser is not signed in.")).to_be_visible()
    expect(page.get_by_text("detent dashboard")).to_be_visible()
    assert "Secret" not in page.content()
    data = [each for each in asked if "/api/" in each and "/api/login/methods" not in each]
    assert data
    assert all(each.startswith("401 ") for each in data)


def test_a_link_works_once(stranger: BrowserContext, detent: Scene) -> None:
    link = detent.link()
    first = stranger.new_page()
    first.goto(link)
    expect(first.get_by_role("heading", name="Inbox")).to_be_visible()
    stranger.clear_cookies()
    second = stranger.new_page()
    second.goto(link)
    expect(second.get_by_role("alert")).to_contain_text("unknown, already used, or expired")


def test_the_link_can_be_pasted_and_other_text_is_refused(
    stranger: BrowserContext, detent: Scene
) -> None:
    page = stranger.new_page()
    page.goto(detent.url)
    field = page.get_by_label("One-time link or code")
    field.fill("open sesame")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_text("not a one-time link or its code")).to_be_visible()
    field.fill(detent.link())
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("heading", name="Inbox")).to_be_visible()


def test_the_command_prints_such_a_link(stranger: BrowserContext, detent: Scene) -> None:
    link = detent.json("dashboard")["url"]
    assert re.fullmatch(rf"{re.escape(detent.url)}/#code=detent_[\w-]+", link)
    page = stranger.new_page()
    page.goto(link)
    expect(page.get_by_role("heading", name="Inbox")).to_be_visible()


def test_an_idle_page_is_notified_that_its_session_has_ended(
    stranger: BrowserContext, detent: Scene
) -> None:
    waiting = sign_in(stranger.new_page(), detent)
    other = stranger.new_page()
    other.goto(detent.url)
    other.get_by_role("button", name=re.compile("Sign out")).click()
    expect(waiting.get_by_text("This browser is not signed in.")).to_be_visible()


def test_signing_out_ends_the_session(stranger: BrowserContext, detent: Scene) -> None:
    page = sign_in(stranger.new_page(), detent)
    session = stranger.cookies()
    page.get_by_role("button", name=re.compile("Sign out")).click()
    expect(page.get_by_text("This browser is not signed in.")).to_be_visible()
    stranger.add_cookies(session)  # type: ignore[arg-type]
    page.goto(detent.url)
    expect(page.get_by_text("This browser is not signed in.")).to_be_visible()
