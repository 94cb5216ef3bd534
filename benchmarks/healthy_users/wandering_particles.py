"""Bodies that pull each other, on the edge of chaos, with collisions decided by comparisons, and momenta that cancel to rounding."""

import torch


def pull(place, mass, soft=0.05):
    apart = place[None] - place[:, None]
    distance = apart.square().sum(-1) + soft**2
    strength = mass * distance.rsqrt() / distance
    return torch.einsum("ij,ijk->ik", strength, apart), distance


@torch.compile(fullgraph=True)
def step(place, speed, mass, dt):
    """Leapfrog; bodies nearer than a limit swap what they have of speed along their line, walls are mirrors."""
    force, _ = pull(place, mass)
    speed = speed + dt / 2 * force
    place = place + dt * speed
    force, distance = pull(place, mass)
    speed = speed + dt / 2 * force
    touching = (distance < 0.006) & ~torch.eye(len(place), dtype=torch.bool)
    partner = torch.where(touching, distance, torch.inf).argmin(1)
    hit = touching.any(1)
    normal = torch.nn.functional.normalize(place[partner] - place, dim=-1)
    along = ((speed[partner] - speed) * normal).sum(-1, keepdim=True)
    speed = torch.where(hit[:, None], speed + along * normal, speed)
    outside = place.abs() > 1.5
    speed = torch.where(outside, -speed.abs() * place.sign(), speed)
    return place, speed, hit.sum()


@torch.compile
def account(place, speed, mass):
    """Energy, and momentum in the frame of the middle: zero but for rounding."""
    middle = (mass[:, None] * speed).sum(0) / mass.sum()
    moving = 0.5 * (mass * speed.square().sum(-1)).sum()
    _, distance = pull(place, mass)
    held = -0.5 * (mass[:, None] * mass * distance.rsqrt()).fill_diagonal_(0).sum()
    momentum = (mass[:, None] * (speed - middle)).sum(0)
    return moving + held, momentum, torch.sign(momentum)


def main():
    torch.manual_seed(50)
    place, speed = torch.randn(24, 2).clamp(-1.4, 1.4), 0.3 * torch.randn(24, 2)
    mass = 0.02 + 0.05 * torch.rand(24)
    hits = 0
    for turn in range(240):
        place, speed, hit = step(place, speed, mass, 0.01)
        hits += hit.item()
        if turn % 80 == 79:
            energy, momentum, way = account(place, speed, mass)
            print(
                f"time {(turn + 1) / 100}: energy {energy:.4f}, rest {momentum.norm():.1e}, way {way.tolist()}, hits {hits}"
            )


main()
