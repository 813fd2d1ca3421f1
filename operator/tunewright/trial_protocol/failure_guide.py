"""What each failure class means to a person, and what to do. Read by the support bundle and the reference pages."""

from collections.abc import Mapping
from dataclasses import dataclass

from tunewright.trial_protocol.report import FailureClass


@dataclass(frozen=True)
class FailureGuide:
    """One class: what happened, and what a person can do about it."""

    meaning: str
    remedy: str


FAILURE_GUIDE: Mapping[FailureClass, FailureGuide] = {
    "DeviceOutOfMemory": FailureGuide(
        "The configuration needs more device memory than there is.",
        "Nothing: the search goes on. If many do, raise `memoryModel.safetyMarginPercent` in the next run, and look for"
        " other processes on the devices.",
    ),
    "Timeout": FailureGuide(
        "The trial ran longer than `pod.runDeadlineSeconds`.",
        "Read the trial's log: a hang is a fact about the configuration, slow compilation needs a longer deadline.",
    ),
    "NaNLoss": FailureGuide(
        "The loss was not a number.",
        "Nothing: the search avoids it. If the baseline does it, its precision is at fault.",
    ),
    "CrashInTraining": FailureGuide(
        "The training program ended with an error of its own.",
        "Read the message and the trial's log. If every trial crashes, the image is at fault.",
    ),
    "Unsupported": FailureGuide(
        "The launcher refused the configuration, although every launch rule was kept.",
        "Restrict `searchSpace` so that it is left out, and report it: a launch rule is missing.",
    ),
    "RcclFailure": FailureGuide(
        "Ranks could not meet, or a collective failed.",
        "Check links, NetworkPolicy and the variables of the fabric. The next attempt goes to another node.",
    ),
    "DeviceMismatch": FailureGuide(
        "The Pod found other devices than the run was planned for, or too few.",
        "Check the node's labels, its driver and `trial.devicePreset`. On a machine without such devices,"
        " `--trials simulated` rehearses the run.",
    ),
    "NodeLost": FailureGuide(
        "The node or the Pod went away without a report.", "Look at the node. The next attempt goes to another one."
    ),
    "Preempted": FailureGuide(
        "The scheduler, an eviction or the queue took the room back.",
        "Nothing: it is tried again. If it happens often, raise the priority or the quota.",
    ),
    "ImagePull": FailureGuide(
        "The trial image could not be pulled before `pod.startDeadlineSeconds`.",
        "Check `trial.image`, `pod.imagePullSecrets` and the registry; give the first pull of a large image more time.",
    ),
    "Unschedulable": FailureGuide(
        "No node took the Pod before `pod.startDeadlineSeconds`.",
        "The message has the scheduler's words: labels, taints, or devices that others hold.",
    ),
    "QuotaExceeded": FailureGuide(
        "A ResourceQuota or the queue did not let the trial in.", "Raise the quota, or check the name of the queue."
    ),
    "AdmissionDenied": FailureGuide(
        "An admission rule of the cluster refused the Pod.",
        "The message names the rule. Trial Pods keep the restricted Pod Security level unless the spec asks for more.",
    ),
    "ResultMissing": FailureGuide(
        "The trial ended without a report; an exit code alone proves nothing.",
        "Read the log. The image may lack the trial program, or `trial.command` starts another one.",
    ),
    "ResultInvalid": FailureGuide(
        "The report could not be read, or belongs to another trial or version.",
        "Use a trial image of the operator's version.",
    ),
    "HostOOMKilled": FailureGuide(
        "The kernel killed a process of the trial: host memory, not device memory.",
        "Raise `trial.resources.limits.memory`.",
    ),
    "Cancelled": FailureGuide("The run was stopped, or did not need the trial any more.", "Nothing."),
    "Interrupted": FailureGuide(
        "Whatever drove the run ended first, or the run was suspended.",
        "Nothing: it runs again without using up an attempt.",
    ),
}
