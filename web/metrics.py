"""Prometheus metrics: counted here for requests, read from the store for jobs, so that every process reports the same."""

from __future__ import annotations

import time
from collections.abc import Iterator

from flask import Flask, Response, g, request
from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from web.service import Service
from web.workers import queues

_METHODS = frozenset({"GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE"})


class Metrics:
    """The metrics of one application."""

    def __init__(self, service: Service) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(_StoreCollector(service))
        self.requests = Counter(
            "minimizer_http_requests", "Requests answered.", ["endpoint", "method", "status"], registry=self._registry
        )
        self.seconds = Histogram(
            "minimizer_http_request_seconds", "Time until the answer began.", ["endpoint"], registry=self._registry
        )

    def exposition(self) -> tuple[bytes, str]:
        """The text Prometheus reads, and its media type."""
        return generate_latest(self._registry), CONTENT_TYPE_LATEST

    def install(self, app: Flask) -> None:
        """Count the requests of ``app``."""
        app.extensions["minimizer.metrics"] = self

        @app.before_request
        def start_clock() -> None:
            g.started = time.perf_counter()

        @app.after_request
        def count(response: Response) -> Response:
            # By endpoint, never by path: ids in labels would make a new series per job.
            endpoint = request.endpoint or "unknown"
            # Nor by an arbitrary method name.
            method = request.method if request.method in _METHODS else "other"
            self.requests.labels(endpoint, method, response.status_code).inc()
            if "started" in g:
                self.seconds.labels(endpoint).observe(time.perf_counter() - g.started)
            return response


class _StoreCollector(Collector):
    """Asks the store at the moment of the scrape."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def describe(self) -> list[Metric]:
        # Without this the registry would call collect() at registration, when the tables may not be there yet.
        return []

    def collect(self) -> Iterator[Metric]:
        jobs = GaugeMetricFamily("minimizer_jobs", "Jobs by status.", labels=["status"])
        for status, count in self._service.store.jobs.counts().items():
            jobs.add_metric([status], count)
        yield jobs
        workers = self._service.store.workers.all()
        yield GaugeMetricFamily("minimizer_workers", "Workers that have registered.", value=len(workers))
        unfit = GaugeMetricFamily(
            "minimizer_worker_trouble",
            "1 for a worker that takes no jobs, since something is wrong with its machine; else 0.",
            labels=["worker"],
        )
        for worker in workers:
            unfit.add_metric([worker.name], float(bool(worker.trouble)))
        yield unfit
        gpus = GaugeMetricFamily(
            "minimizer_worker_gpu",
            "GPUs of workers: 1 where jobs can use it, 0 where something is wrong.",
            labels=["worker", "uuid", "gpu", "driver", "torch", "triton"],
        )
        for worker in workers:
            hardware = worker.hardware
            for gpu in hardware.gpus:
                labels = [worker.name, gpu.uuid, gpu.name, hardware.driver, worker.torch, hardware.triton]
                gpus.add_metric(labels, float(not hardware.trouble))
        yield gpus
        waiting = GaugeMetricFamily(
            "minimizer_waiting_jobs", "Jobs that wait, by what they wait for.", labels=["device", "toolchain"]
        )
        for queue in queues(self._service.store, workers):
            waiting.add_metric([queue.device or "any", queue.toolchain or "default"], queue.jobs)
        yield waiting
        yield GaugeMetricFamily(
            "minimizer_event_streams", "Event streams open in this process.", value=self._service.streams.taken
        )
        yield GaugeMetricFamily(
            "minimizer_long_polls", "Long polls waiting in this process.", value=self._service.polls.taken
        )
