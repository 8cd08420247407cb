"""The judge: a model behind a port that answers the guards' questions. Off unless ``[judge]`` names one."""
