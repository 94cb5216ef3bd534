"""Actor-critic with LSTM, sampled actions inside the compiled step, a state list, gumbel noise and sorted advantages."""

import random
from collections import deque, namedtuple

import torch
import torch.nn as nn
from torch.distributions import Categorical

Step = namedtuple("Step", "logp value entropy")


class Policy(nn.Module):
    def __init__(self, obs=6, actions=4, d=16):
        super().__init__()
        self.cell = nn.LSTMCell(obs, d)
        self.pi, self.v = nn.Linear(d, actions), nn.Linear(d, 1)
        self.register_buffer("visits", torch.zeros(actions, dtype=torch.long))
        self.mean, self.count = torch.zeros(obs), 0

    def forward(self, obs, state):
        self.count += 1
        self.mean.lerp_(obs.mean(0), 1.0 / self.count)
        state = self.cell(obs - self.mean, state)
        dist = Categorical(logits=self.pi(state[0]))
        action = dist.sample()
        self.visits.scatter_add_(0, action, torch.ones_like(action))
        return action, Step(dist.log_prob(action), self.v(state[0]).squeeze(-1), dist.entropy()), state


class Env:
    def __init__(self, n):
        self.pos = torch.zeros(n, 6)

    def step(self, action):
        self.pos = self.pos.roll(1, 1) + torch.nn.functional.one_hot(action, 6).float() * 0.3
        return self.pos.clone(), -self.pos.pow(2).sum(1) + random.random()


def main():
    torch.manual_seed(0)
    random.seed(0)
    policy = Policy()
    act = torch.compile(policy)
    opt = torch.optim.RMSprop(policy.parameters(), 1e-3)
    recent = deque(maxlen=5)
    for _ in range(2):
        env, state, steps, rewards = Env(5), (torch.zeros(5, 16), torch.zeros(5, 16)), [], []
        obs = env.pos.clone()
        for _ in range(4):
            action, step, state = act(obs, state)
            obs, reward = env.step(action)
            steps.append(step)
            rewards.append(reward)
        ret, returns = torch.zeros(5), []
        for r in reversed(rewards):
            ret = r + 0.9 * ret
            returns.insert(0, ret)
        loss = sum(
            (-(s.logp * (g - s.value.detach())) + (g - s.value) ** 2 - 0.01 * s.entropy).mean()
            for s, g in zip(steps, returns, strict=True)
        )
        opt.zero_grad()
        loss.backward()
        opt.step()
        recent.append(loss.item())
    print(list(recent), policy.visits)


if __name__ == "__main__":
    main()
