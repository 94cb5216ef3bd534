"""The pictures of a job's page, drawn on the server as SVG: classes and presentation attributes only, no inline style.

Every picture has a title and a description, uses no colour as the only sign, and has its numbers as text next to it.
"""

from web.job_page.charts.curve import Point, reduction_curve, trials_curve
from web.job_page.charts.graph import culprit_graph
from web.job_page.charts.layers import layer_errors
from web.job_page.charts.losses import loss_curves

__all__ = ["Point", "culprit_graph", "layer_errors", "loss_curves", "reduction_curve", "trials_curve"]
