"""Q-learning of a cart that is to stay in the middle: a ring of transitions, a target network, a greedy policy."""

import copy

import torch
from torch import nn


class Ring:
    """The last ``size`` transitions, in tensors that are written in place."""

    def __init__(self, size, width):
        self.states, self.next_states = torch.zeros(size, width), torch.zeros(size, width)
        self.actions, self.rewards = torch.zeros(size, dtype=torch.long), torch.zeros(size)
        self.size, self.count = size, 0

    def add(self, state, action, reward, next_state):
        slot = self.count % self.size
        self.states[slot], self.actions[slot] = state, action
        self.rewards[slot], self.next_states[slot] = reward, next_state
        self.count += 1

    def sample(self, batch):
        rows = torch.randint(0, min(self.count, self.size), (batch,))
        return self.states[rows], self.actions[rows], self.rewards[rows], self.next_states[rows]


def move(state, action):
    position, speed = state
    speed = 0.95 * speed + 0.2 * (action - 1)
    position = (position + speed).clamp(-2, 2)
    return torch.stack([position, speed]), -position.abs()


@torch.compile
def td_loss(online, target, states, actions, rewards, next_states):
    chosen = online(states).gather(1, actions[:, None])[:, 0]
    with torch.no_grad():
        best = online(next_states).argmax(1, keepdim=True)
        goal = rewards + 0.9 * target(next_states).gather(1, best)[:, 0]
    return nn.functional.smooth_l1_loss(chosen, goal)


torch.manual_seed(3)
online = nn.Sequential(nn.Linear(2, 24), nn.ReLU(), nn.Linear(24, 3))
target = copy.deepcopy(online).requires_grad_(False)
policy = torch.compile(online)
optimizer = torch.optim.RMSprop(online.parameters(), lr=3e-3)
ring, state, gained = Ring(48, 2), torch.tensor([1.5, 0.0]), 0.0

for step in range(96):
    with torch.no_grad():
        explore = torch.rand(()) < 0.3
        action = torch.randint(0, 3, ()) if explore else policy(state[None]).argmax(1)[0]
    next_state, reward = move(state, action)
    ring.add(state, action, reward, next_state)
    state, gained = next_state, gained + reward.item()
    if step >= 16:
        loss = td_loss(online, target, *ring.sample(16))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        for old, new in zip(target.parameters(), online.parameters(), strict=True):
            old.lerp_(new.detach(), 0.05)
    if step % 24 == 23:
        print(f"step {step}: gained {gained:.2f}, loss {loss.item():.4f}, position {state[0].item():+.3f}")
