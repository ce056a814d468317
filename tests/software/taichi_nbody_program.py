"""Taichi: bodies as structs that attract each other, with energies and a bounding box by atomics, against NumPy."""

import numpy as np
import taichi as ti

ti.init(arch=ti.cuda, default_fp=ti.f32, random_seed=3, offline_cache=False, log_level=ti.ERROR)
assert ti.lang.impl.current_cfg().arch == ti.cuda
N, STEPS, DT, SOFT = 300, 5, 1e-3, 1e-2

Body = ti.types.struct(place=ti.math.vec3, speed=ti.math.vec3, mass=ti.f32)
bodies = Body.field(shape=N)
force = ti.Vector.field(3, ti.f32, shape=N)
energy = ti.field(ti.f64, shape=2)
box = ti.Vector.field(3, ti.f32, shape=2)
near = ti.field(ti.i32, shape=N)


@ti.func
def pull(a, b):
    d = b - a
    r2 = d.dot(d) + SOFT
    return d / (r2 * ti.sqrt(r2))


@ti.kernel
def attract():
    ti.loop_config(block_dim=64)
    for i in range(N):
        total = ti.Vector([0.0, 0.0, 0.0])
        for j in range(N):
            if i != j:
                total += pull(bodies[i].place, bodies[j].place) * bodies[j].mass
        force[i] = total


@ti.kernel
def move():
    for i in bodies:
        bodies[i].speed += force[i] * DT
        bodies[i].place += bodies[i].speed * DT


@ti.kernel
def measure():
    for i in bodies:
        b = bodies[i]
        energy[0] += ti.cast(0.5 * b.mass * b.speed.dot(b.speed), ti.f64)
        for k in ti.static(range(3)):
            ti.atomic_min(box[0][k], b.place[k])
            ti.atomic_max(box[1][k], b.place[k])
        for j in range(i):
            d = bodies[j].place - b.place
            energy[1] -= ti.cast(b.mass * bodies[j].mass / ti.sqrt(d.dot(d) + SOFT), ti.f64)
            if d.norm() < 0.2:
                ti.atomic_add(near[i], 1)
                ti.atomic_add(near[j], 1)


random = np.random.default_rng(7)
place = random.random((N, 3), np.float32)
speed = random.standard_normal((N, 3)).astype(np.float32)
mass = random.random(N, np.float32)
bodies.place.from_numpy(place)
bodies.speed.from_numpy(speed)
bodies.mass.from_numpy(mass)
box.fill(0)
box[0] = [9.0, 9.0, 9.0]
box[1] = [-9.0, -9.0, -9.0]
p, v, m = place.astype(np.float64), speed.astype(np.float64), mass.astype(np.float64)
for _ in range(STEPS):
    attract()
    move()
    d = p[None] - p[:, None]
    r2 = (d**2).sum(2) + SOFT
    f = (d / (r2 * np.sqrt(r2))[..., None] * m[None, :, None]).sum(1)
    v = v + f * DT
    p = p + v * DT
measure()
assert np.allclose(bodies.place.to_numpy(), p, atol=2e-5)
assert np.allclose(bodies.speed.to_numpy(), v, rtol=1e-3, atol=2e-3)
d = p[None] - p[:, None]
r = np.sqrt((d**2).sum(2) + SOFT)
kinetic, potential = 0.5 * (m * (v**2).sum(1)).sum(), -(np.outer(m, m) / r)[np.triu_indices(N, 1)].sum()
assert np.allclose(energy.to_numpy(), [kinetic, potential], rtol=1e-4), (energy.to_numpy(), kinetic, potential)
assert np.allclose(box.to_numpy(), [p.min(0), p.max(0)], atol=2e-5)
close = (np.sqrt((d**2).sum(2)) < 0.2).sum(1) - 1
assert (np.abs(near.to_numpy() - close) <= 1).all() and abs(near.to_numpy().sum() - close.sum()) <= 4
print("right")
