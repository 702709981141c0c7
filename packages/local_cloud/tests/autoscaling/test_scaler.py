"""Targets, policies, and schedules that scale an endpoint, by a clock that tests move."""

from datetime import UTC, datetime, timedelta

import pytest

from packages.local_cloud.tests.autoscaling.scaled import KEY, SCOPE, Scaled
from tritonstack_local.autoscaling.scaler import History


@pytest.fixture
def scaled():
    parts = Scaled()
    parts.register()
    return parts


def test_a_high_alarm_scales_out_and_the_history_tells_it(scaled):
    scaled.track()
    scaled.high(250)
    scaled.look()
    assert scaled.endpoint.asked == [3]
    (begun,) = scaled.activities()
    assert begun["StatusCode"] == "InProgress"
    assert "EndTime" not in begun
    scaled.finish()
    (done,) = scaled.activities()
    assert done["ActivityId"] == begun["ActivityId"]
    assert done["Description"].endswith(" 3.")
    high = scaled.policy().high
    assert high.startswith("TargetTracking-endpoint/e/variant/v-AlarmHigh-")
    assert done["Cause"].split()[2::6] == [high, "p"]
    assert done["StatusCode"] == "Successful"
    assert done["EndTime"] >= done["StartTime"]
    assert done["Details"] is None


def test_during_the_scale_out_cooldown_added_capacity_counts(scaled):
    scaled.track(ScaleOutCooldown=300)
    scaled.high(250)
    scaled.finish()
    scaled.high(250)  # the metric has not followed yet: still 2.5 of one instance
    assert scaled.endpoint.asked == [3]
    scaled.high(420)  # a larger scale-out, counted from one instance
    assert scaled.endpoint.asked == [3, 5]
    scaled.finish()
    scaled.look(after_s=5 * 1.0 + 0.1)
    scaled.high(120)
    assert scaled.endpoint.asked == [3, 5, 6]


def test_a_cooldown_blocks_scale_in_until_it_ends(scaled):
    scaled.track(ScaleOutCooldown=60, ScaleInCooldown=300)
    scaled.high(400)
    scaled.finish()
    scaled.low(10)
    assert scaled.endpoint.asked == [4]
    scaled.look(after_s=1.1)
    scaled.low(60)
    scaled.finish()
    assert scaled.endpoint.asked == [4, 3]
    scaled.look(after_s=4.8)
    scaled.low(10)
    assert scaled.endpoint.asked == [4, 3]
    scaled.high(150)  # ends the scale-in cooldown
    scaled.finish()
    assert scaled.endpoint.asked == [4, 3, 5]


def test_all_tracking_policies_must_be_ready_to_scale_in(scaled):
    scaled.endpoint.finish(desired=6, running=6)
    scaled.track("a")
    scaled.track("b")
    scaled.track("c", DisableScaleIn=True)
    assert scaled.policy("c").low is None
    scaled.say(scaled.policy("b").low, 95, state="OK")
    scaled.low(10, name="a")
    assert scaled.endpoint.asked == []
    scaled.say(scaled.policy("b").low, 60)
    scaled.low(10, name="a")
    assert scaled.endpoint.asked == [4]
    assert "triggered policy b" in scaled.activities()[0]["Cause"]


def test_a_scale_in_that_would_bring_the_metric_above_the_target_does_not_happen(scaled):
    scaled.endpoint.finish(desired=2, running=2)
    scaled.track()
    scaled.low(85)
    scaled.low(85)
    assert scaled.endpoint.asked == []
    assert scaled.activities() == []
    (entry,) = scaled.activities(IncludeNotScaledActivities=True)
    assert entry["StatusCode"] == "Failed"
    assert entry["NotScaledReasons"] == [{"Code": "AutoScalingAnticipatedFlapping", "CurrentCapacity": 2}]


def test_step_scaling_follows_its_alarm(scaled):
    steps = [
        {"MetricIntervalLowerBound": 0, "MetricIntervalUpperBound": 100, "ScalingAdjustment": 2},
        {"MetricIntervalLowerBound": 100, "ScalingAdjustment": 3},
    ]
    configuration = {"AdjustmentType": "ChangeInCapacity", "StepAdjustments": steps, "Cooldown": 120}
    scaled.put_policy("s", "StepScaling", configuration)
    assert scaled.policy("s").alarms == []
    scaled.fire(scaled.policy("s"), "busy", 150)
    scaled.finish()
    assert scaled.endpoint.asked == [3]
    # AWS's example: a step of 3 after one of 2 adds only one.
    scaled.fire(scaled.policy("s"), "busy", 250)
    scaled.finish()
    assert scaled.endpoint.asked == [3, 4]
    assert scaled.activities()[0]["Cause"].split()[2::6] == ["busy", "s"]


def test_suspended_scaling_is_ignored(scaled):
    scaled.track()
    suspended = {"DynamicScalingOutSuspended": True, "ScheduledScalingSuspended": True}
    scaled.register(SuspendedState=suspended)
    scaled.high(500)
    schedule(scaled, minutes=2, MinCapacity=5)
    scaled.look(after_s=2.1)
    assert (scaled.endpoint.asked, scaled.limits) == ([], (1, 10))
    scaled.register(SuspendedState={"DynamicScalingOutSuspended": False})
    scaled.high(500)
    assert scaled.endpoint.asked == [5]


def test_registering_limits_scales_at_once():
    scaled = Scaled()
    scaled.register(low=3)
    assert scaled.endpoint.asked == [3]
    scaled.finish()
    scaled.register(low=1, high=2)
    scaled.finish()
    assert scaled.endpoint.asked == [3, 2]
    newest, oldest = scaled.activities()
    assert oldest["Cause"].split()[::5] == ["minimum", "3"]
    assert newest["Cause"].split()[::5] == ["maximum", "2"]
    scaled.track()
    scaled.low(10)  # limits start no cooldown
    assert scaled.endpoint.asked == [3, 2, 1]


def schedule(scaled, *, minutes, **limits):
    """Set limits in the last minute before so many minutes have passed, and every day."""
    at = datetime.now(UTC) + timedelta(minutes=minutes)
    action = {"ScheduledActionName": "s", "Schedule": f"cron({at.minute} {at.hour} * * ? *)"}
    scaled.actions.put_scheduled_action(SCOPE, KEY | action | {"ScalableTargetAction": limits})


def test_a_schedule_sets_limits_at_the_pace_of_the_cloud(scaled):
    schedule(scaled, minutes=10, MinCapacity=4, MaxCapacity=6)
    scaled.look(after_s=8.9)
    assert scaled.limits == (1, 10)
    scaled.look(after_s=1.3)
    assert (scaled.limits, scaled.endpoint.asked) == ((4, 6), [4])
    scaled.finish()
    first, second = scaled.activities()[::-1]
    assert [int(word) for word in first["Description"].split() if word.isdigit()] == [4, 6]
    assert "action name s was" in first["Cause"]
    assert second["Cause"].split()[::5] == ["minimum", "4"]
    assert second["StatusCode"] == "Successful"
    scaled.look(after_s=5)
    assert len(scaled.activities()) == 2


def test_scaling_is_blocked_while_the_endpoint_is_updated(scaled):
    scaled.track()
    scaled.endpoint.finish(status="Updating")
    scaled.high(500)
    scaled.register(low=2)
    assert (scaled.endpoint.asked, scaled.activities()) == ([], [])
    scaled.endpoint.finish()
    scaled.look()
    assert scaled.endpoint.asked == [2]  # the limit is still due
    scaled.finish()
    scaled.high(150)  # alarms repeat their actions every minute
    assert scaled.endpoint.asked == [2, 3]


def test_an_instance_that_fails_to_launch_fails_the_activity(scaled):
    scaled.track()
    scaled.high(500)
    scaled.finish(desired=1, running=1, failure="no ping")
    (failed,) = scaled.activities()
    assert failed["StatusCode"] == "Failed"
    assert failed["StatusMessage"].endswith(" 5. Reason: no ping")
    scaled.high(500)  # without a cooldown, the next alarm tries again
    assert scaled.endpoint.asked == [5, 5]


def test_a_deleted_endpoint_is_deregistered(scaled):
    scaled.track()
    schedule(scaled, minutes=2, MinCapacity=2)
    assert len(scaled.alarms.names) == 2
    scaled.endpoint.held = None
    scaled.look()
    assert scaled.store.targets.within(SCOPE) == []
    assert scaled.alarms.names == set()


def deregister(scaled):
    scaled.actions.deregister_scalable_target(SCOPE, KEY)


def delete_endpoint(scaled):
    scaled.endpoint.held = None


@pytest.mark.parametrize(
    ("end", "reason"), [(deregister, "deregistered"), (delete_endpoint, "no longer exists")]
)
def test_an_activity_ends_with_its_target(scaled, end, reason):
    scaled.track()
    scaled.high(300)
    assert [item["StatusCode"] for item in scaled.activities()] == ["InProgress"]
    end(scaled)
    scaled.look()
    (ended,) = scaled.activities()
    assert ended["StatusCode"] == "Failed"
    assert reason in ended["StatusMessage"]
    assert ended["EndTime"] is not None


def test_a_target_that_is_deregistered_meanwhile_is_not_scaled(scaled, monkeypatch):
    scaled.track()
    add = History.add

    def add_and_deregister(history, scope, record):
        add(history, scope, record)
        deregister(scaled)

    monkeypatch.setattr(History, "add", add_and_deregister)
    scaled.high(300)
    assert scaled.endpoint.asked == []
    assert [item["StatusCode"] for item in scaled.activities()] == ["Failed"]
