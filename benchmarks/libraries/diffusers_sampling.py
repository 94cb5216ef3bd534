"""A conditional U-Net of diffusers draws a picture by DDIM with guidance; its blocks are compiled as the library offers it."""

import torch
from diffusers import DDIMScheduler, UNet2DConditionModel

torch.manual_seed(18)
unet = UNet2DConditionModel(
    sample_size=8, in_channels=4, out_channels=4, layers_per_block=1, block_out_channels=(16, 32), norm_num_groups=4,
    down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"), up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
    cross_attention_dim=16, attention_head_dim=4,
).eval()  # fmt: skip
unet = torch.compile(unet, fullgraph=True)
scheduler = DDIMScheduler(num_train_timesteps=100)
scheduler.set_timesteps(4)
prompt, nothing = torch.randn(1, 6, 16), torch.zeros(1, 6, 16)
latents = torch.randn(1, 4, 8, 8) * scheduler.init_noise_sigma
with torch.no_grad():
    for time in scheduler.timesteps:
        both = scheduler.scale_model_input(torch.cat([latents] * 2), time)
        noise = unet(both, time, encoder_hidden_states=torch.cat([nothing, prompt])).sample
        plain, guided = noise.chunk(2)
        latents = scheduler.step(plain + 3.0 * (guided - plain), time, latents).prev_sample
        print(int(time), f"{latents.std().item():.4f}")
