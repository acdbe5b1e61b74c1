#!/usr/bin/env bash
# One round: a model replies at recorded moments of train people, PAYER rates the replies in their place, the model learns from the ratings by
# three algorithms, and all are benchmarked on people held out. Run it from the root of the repository:
#   examples/round.sh MODEL PAYER OUT      such as runs/sft openai:NAME runs/round, with its server's address in OPENAI_BASE_URL
# SAMPLE, TRAIN and BENCH replace the options of a model of half a billion weights on two cores that multiply in bfloat16.
set -euo pipefail
model=$1 payer=$2 out=$3
[ -d "$out/replies" ] || rlver-gym sample "$model" --at recordings/en/samples/own --out "$out/replies" ${SAMPLE:---moments 200 --replies 6 --temperature 0.7 --dtype bfloat16}
rlver-gym rate "$out/replies" --user "$payer" --yes || [ $? -eq 4 ]  # moments that the payer failed at are left out
agents=(--agent "hf:$model")
for algorithm in dpo grpo ppo; do
    rlver-gym train --from "$out/replies" --algo "$algorithm" --model "$model" --out "$out/$algorithm" --eval-every 0 ${TRAIN:---config qwen-0.5b --iterations 13}
    agents+=(--agent "hf:$out/$algorithm/model")
done
rlver-gym bench "${agents[@]}" --out "$out/bench" ${BENCH:---split validation --seeds 1 --agent-option temperature=0.7 --agent-option max_reply_tokens=100 --agent-option dtype=bfloat16}
rlver-gym rescore "$out/bench" --user "$payer" --yes
