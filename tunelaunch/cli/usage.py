"""The text of ``tunelaunch --help``."""

from __future__ import annotations

HELP = """\
usage: tunelaunch [own options] [any argument of python -m sglang.launch_server]
       tunelaunch COMMAND ...

Launches SGLang, in this same process, with a proven and persisted table of FlashInfer tactics for this GPU.
All arguments that are not listed here are SGLang's; they are passed on unchanged and in order.

own options (each falls back to the variable beside it)
  --retune                       tune again, replace the rows            TUNELAUNCH_RETUNE=1
  --tunelaunch-cache DIR         root of the tables                      TUNELAUNCH_CACHE_DIR
  --tunelaunch-mode MODE         auto, readonly (never write) or off     TUNELAUNCH_MODE       [auto]
  --tunelaunch-strict            named fallbacks become errors           TUNELAUNCH_STRICT=1
  --tunelaunch-min-gain PERCENT  by which tuned must beat default        TUNELAUNCH_MIN_GAIN   [3]
  --tunelaunch-effort EFFORT     quick, normal or thorough               TUNELAUNCH_EFFORT     [normal]
  --tunelaunch-tag TEXT          separates tables of one device          TUNELAUNCH_TAG
  --tunelaunch-verify WHICH      off, new (rows) or all                  TUNELAUNCH_VERIFY     [new]
  --tunelaunch-max-error E[,ROW] error against default that may pass     TUNELAUNCH_MAX_ERROR  [by dtype]
  --tunelaunch-remote URL        pull rows on a miss, push new ones      TUNELAUNCH_REMOTE
                                 caches and bundles below the table      TUNELAUNCH_SEEDS=PATH:PATH
                                 key that signs and checks the shared    TUNELAUNCH_KEY_FILE
                                 refuse what is shared without signature TUNELAUNCH_REQUIRE_SIGNED=1
                                 plain SGLang, whatever else is set      TUNELAUNCH_DISABLE=1
  -h, --help                     this text
  --help-sglang                  SGLang's own options (python -m sglang.launch_server --help)
  --version                      versions of tunelaunch, SGLang and FlashInfer

commands (an argument without a dash, before any SGLang argument)
  cache ls|show|diff|verify|dir       the tables on disk: what is in them, what changed, what is damaged
  cache rollback|pin|unpin            put an earlier generation back; protect rows
  cache rm|prune|unquarantine         remove tables; let a tactic be tried again (each has --help)
  doctor [SGLANG ARGUMENTS]           what would go wrong at a start, before it does
  why [SGLANG ARGUMENTS]              hit or miss, and the field that differs from the nearest table
  report [LAUNCH]                     what the last start loaded, tuned and left at default
  export FILE / import FILE|DIR|URL   tables to another host in one file, and merged in there by evidence
  push URL / pull URL                 the same through a directory, a bucket or another store for many hosts
  demo                                the whole cycle on this machine, with or without a GPU

Options with a value take "--tunelaunch-x V" or "--tunelaunch-x=V". SGLang's options are not known here: a value of one
of them that reads like an option above is taken for it. Write that one as --opt=value, or put it after "--": from
there on everything, the "--" included, goes to SGLang untouched.

exit codes: 0 done, 1 refused or failed for a named reason, 2 usage, 3 a bug in tunelaunch, 130 interrupted; once SGLang
runs, its own.

examples
  tunelaunch --model-path /models/current --tp 2 --port 30000
  tunelaunch --retune --tunelaunch-cache /var/cache/tunelaunch --model-path /models/current
  tunelaunch cache ls --format json
"""
