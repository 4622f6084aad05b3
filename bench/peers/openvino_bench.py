#!/usr/bin/env python3
"""OpenVINO GenAI behind llama-bench's letters, for compare.py.

    compare.py --peer OpenVINO=bench/peers/openvino_bench.py --peer-model OpenVINO:Q8_0=FOLDER ...

-m names a folder that optimum-cli exported. Prompts are fresh random tokens each time, or the prefix cache would answer.
Needs the packages openvino-genai and numpy. LITHE_OV_PRECISION: f32 (the default here) or bf16.
"""
import argparse
import json
import os
import time

import numpy
import openvino
import openvino_genai as genai


def prompt(count, rng=numpy.random.default_rng()):
    return openvino.Tensor(rng.integers(100, 30000, (1, count)).astype(numpy.int64))


def exactly(tokens):
    config = genai.GenerationConfig()
    config.min_new_tokens = config.max_new_tokens = tokens
    config.ignore_eos, config.do_sample, config.apply_chat_template = True, False, False
    return config


def prefill(pipe, tokens):
    start = time.perf_counter()
    pipe.generate(prompt(tokens), exactly(1))
    return tokens / (time.perf_counter() - start)


def decode(pipe, depth, tokens):
    return 1000 / pipe.generate(prompt(depth), exactly(tokens + 1)).perf_metrics.get_tpot().mean


def decode_together(model, properties, depth, tokens, rows):
    scheduler = genai.SchedulerConfig()
    scheduler.max_num_batched_tokens, scheduler.max_num_seqs, scheduler.cache_size = 4096, rows, 2
    scheduler.enable_prefix_caching = False
    pipe = genai.ContinuousBatchingPipeline(model, scheduler, "CPU", properties)
    for _ in range(2):  # the first round warms up
        requests = [pipe.add_request(i, prompt(depth), exactly(tokens)) for i in range(rows)]
        pipe.step()  # the prompts
        pipe.step()
        start, steps = time.perf_counter(), 0
        while pipe.has_non_finished_requests():
            pipe.step()
            steps += 1
        speed = steps * rows / (time.perf_counter() - start)
        del requests
    return speed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-m", required=True)
    for letter, value in (("-p", 0), ("-n", 0), ("-d", 0), ("-npl", 0), ("-t", 2), ("-r", 1)):
        parser.add_argument(letter, type=int, default=value)
    parser.add_argument("-o", default="json")
    args = parser.parse_args()
    properties = {"INFERENCE_NUM_THREADS": args.t, "PERFORMANCE_HINT": "LATENCY",
                  "INFERENCE_PRECISION_HINT": os.environ.get("LITHE_OV_PRECISION", "f32")}
    if args.npl:
        speed = decode_together(args.m, properties, args.d, args.n, args.npl)
    else:
        pipe = genai.LLMPipeline(args.m, "CPU", **properties)
        run = (lambda: prefill(pipe, args.p)) if args.p else (lambda: decode(pipe, max(args.d, 4), args.n))
        pipe.generate(prompt(max(args.p, 16)), exactly(8 if args.n else 1))
        speed = run()
    print(json.dumps([{"avg_ts": speed}]))


if __name__ == "__main__":
    main()
